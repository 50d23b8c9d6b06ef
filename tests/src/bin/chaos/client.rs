//! One client process: it uses every kind of lock at the same time, and records what it believes.

use std::{
    error::Error,
    io,
    path::Path,
    process::ExitCode,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use redlock_fuzz::Random;
use redlock_runtime::{Lease, Lock, LockError, Redlock, redis_lock};
use tokio::{
    task::{JoinSet, spawn_blocking},
    time::sleep,
};

use crate::{
    plan::{CONNECT_TIMEOUT, LEASE, NODE_TIMEOUT, Pace, SHORT, SOAK},
    record::{Record, now},
};

pub(crate) const KINDS: [&str; 12] = [
    "plain",
    "closure",
    "attribute",
    "shared",
    "permits",
    "fair",
    "several",
    "at_least",
    "renewed",
    "leader",
    "blocking",
    "reentrant",
];

pub(crate) const PERMITS: u32 = 3;

/// Of the lock that is kept for so long.
pub(crate) const PERIOD: Duration = Duration::from_millis(150);

const WAIT: Duration = Duration::from_secs(2);

/// Between two looks of a body at its lease.
const STEP: Duration = Duration::from_millis(10);

/// The same for a lock that is held all the time.
const LONG_STEP: Duration = Duration::from_secs(10);

/// So many calls begin at once, more than the machine can answer at once, on half as many keys.
const BURST: u64 = 500;

/// In microseconds, between two looks at the nodes. They should be 25 ms apart.
const SLOW: u64 = 150_000;

/// What a body panics with if it was meant to.
const PLANNED: &str = "planned";

struct Client {
    redlock: Redlock,
    record: Arc<Record>,
    /// Its number and its life, which begin the names of its sections.
    name: String,
    sections: AtomicU64,
    is_over: AtomicBool,
    /// Some sections of the plain kind do without the lock.
    breaks: bool,
}

/// `chaos client <number> <life> <seed> <record> <whether it breaks the rules> <whether it is a soak>`
pub(crate) fn main(args: &[&str]) -> Result<ExitCode, Box<dyn Error>> {
    let [number, life, seed, record, breaks, soaks] = args else {
        return Err("not called by hand".into());
    };
    let pace = if *soaks == "true" { &SOAK } else { &SHORT };
    let record = Arc::new(Record::open(Path::new(record)));
    tell_panics(&record);
    let runtime = tokio::runtime::Runtime::new()?;
    let seed: u64 = seed.parse()?;
    runtime.block_on(async {
        let installed = loop {
            let builder = Redlock::builder().expire(LEASE).max_lease(pace.max_lease);
            let builder = builder
                .node_timeout(NODE_TIMEOUT)
                .connect_timeout(CONNECT_TIMEOUT)
                .require_quorum(false);
            match builder.install().await {
                Ok(installed) => break installed,
                // A majority refuses access just now.
                Err(_) => sleep(STEP).await,
            }
        };
        let redlock = Redlock::clone(&installed);
        while redlock.ready(WAIT).await.is_err() {}
        let client = Arc::new(Client {
            redlock: redlock.clone(),
            record,
            name: format!("{number}.{life}"),
            sections: AtomicU64::new(0),
            is_over: AtomicBool::new(false),
            breaks: *breaks == "true" && *number == "0",
        });
        println!("ready");
        let mut tasks = JoinSet::new();
        client.start(&mut tasks, seed, pace);
        tasks.spawn(Arc::clone(&client).watch(number.parse()?));
        let random = Random::new(seed.wrapping_add(17));
        let brief = thread::spawn({
            let client = Arc::clone(&client);
            move || client.drop_runtimes(random)
        });
        spawn_blocking(|| io::stdin().lines().next()).await?;
        client.is_over.store(true, Ordering::Relaxed);
        tasks.join_all().await;
        spawn_blocking(move || brief.join())
            .await?
            .expect("the thread does not panic");
        redlock.shutdown(10 * WAIT).await?;
        println!("done");
        Ok(ExitCode::SUCCESS)
    })
}

fn tell_panics(record: &Arc<Record>) {
    let record = Arc::clone(record);
    std::panic::set_hook(Box::new(move |panic| {
        let payload = panic.payload().downcast_ref::<&str>();
        if payload != Some(&PLANNED) {
            record.line(now(), &format!("panic {panic}"));
        }
    }));
}

impl Client {
    fn goes_on(&self) -> bool {
        !self.is_over.load(Ordering::Relaxed)
    }

    /// One task for each kind of lock, and more in a soak.
    fn start(self: &Arc<Self>, tasks: &mut JoinSet<()>, seed: u64, pace: &Pace) {
        let random = |place: usize| Random::new(seed.wrapping_add(place as u64 * 1_000_003));
        let kinds = KINDS
            .into_iter()
            .chain(std::iter::repeat_n("busy", pace.busy))
            .chain(std::iter::repeat_n("burst", pace.busy.min(1)));
        for (place, kind) in kinds.enumerate() {
            tasks.spawn(Arc::clone(self).work(kind, random(place)));
        }
        for place in 0..pace.held {
            tasks.spawn(Arc::clone(self).keep(place, random(100 + place)));
        }
    }

    async fn work(self: Arc<Self>, kind: &'static str, mut random: Random) {
        while self.goes_on() {
            let pause = match kind {
                "busy" => random.below(15),
                "burst" => 500 + random.below(60_000),
                _ => 50 + random.below(450),
            };
            if kind == "burst" {
                let mut calls = JoinSet::new();
                for _ in 0..BURST {
                    let (client, mut random) = (Arc::clone(&self), Random::new(random.next()));
                    calls.spawn(async move { client.play(kind, None, &mut random).await });
                }
                calls.join_all().await;
            } else {
                self.play(kind, None, &mut random).await;
            }
            // In steps, because the run may end meanwhile.
            for _ in 0..=pause / 1_000 {
                sleep(Duration::from_millis(pause.min(1_000))).await;
                if !self.goes_on() {
                    break;
                }
            }
        }
    }

    /// Holds one lock all the time, as far as it can.
    async fn keep(self: Arc<Self>, place: usize, mut random: Random) {
        let number = self.name.split('.').next().unwrap_or("").to_owned();
        // Not all at once: a process that begins has a thousand locks to acquire.
        sleep(STEP * place as u32).await;
        let mut longest = 1_000;
        while self.goes_on() {
            let key = format!("held:{number}:{place}");
            let asked = Instant::now();
            self.play("held", Some(key), &mut random).await;
            // Ten thousand that ask again soon keep an overloaded machine overloaded.
            longest = match asked.elapsed() > LONG_STEP {
                true => 1_000,
                false => (longest * 2).min(30_000),
            };
            let again = Instant::now() + Duration::from_millis(random.below(longest));
            while self.goes_on() && Instant::now() < again {
                sleep(Duration::from_millis(500)).await;
            }
        }
    }

    /// One call in a task of its own, which may be aborted at any time.
    async fn play(self: &Arc<Self>, kind: &'static str, key: Option<String>, random: &mut Random) {
        let visit = Arc::new(Visit::new(self, kind, key, random));
        let mut task = tokio::spawn({
            let visit = Arc::clone(&visit);
            async move { visit.call().await }
        });
        let is_cancelled = random.below(12) == 0;
        let cancelled_after = Duration::from_millis(random.below(150));
        let ended = tokio::select! {
            ended = &mut task => ended,
            () = sleep(cancelled_after), if is_cancelled => {
                task.abort();
                task.await
            }
        };
        match ended {
            Ok(Ok(())) => visit.end("ok"),
            Ok(Err(error)) => visit.end(&format!("{} {error}", name(&error))),
            Err(error) if error.is_cancelled() => visit.end("cancelled"),
            Err(_) => visit.end("panicked"),
        }
    }

    /// Runtimes that are dropped in the middle of everything.
    fn drop_runtimes(self: &Arc<Self>, mut random: Random) {
        while self.goes_on() {
            let runtime = tokio::runtime::Builder::new_multi_thread()
                .worker_threads(1)
                .enable_all()
                .build()
                .expect("a runtime can be made");
            for kind in ["plain", "closure", "shared", "fair", "renewed"] {
                let (client, mut random) = (Arc::clone(self), random.clone());
                runtime.spawn(async move { client.play(kind, None, &mut random).await });
            }
            thread::sleep(Duration::from_millis(random.below(300)));
            drop(runtime);
            thread::sleep(Duration::from_millis(1_000 + random.below(1_000)));
        }
    }

    /// What the operator is told of the nodes.
    async fn watch(self: Arc<Self>, number: usize) {
        let (mut before, mut at) = (Vec::new(), now());
        while self.goes_on() {
            let state = |node: &redlock_runtime::NodeStatus| {
                let state = format!("{:?}", node.state());
                state.split([' ', '(']).next().unwrap_or("").to_owned()
            };
            let states: Vec<String> = self.redlock.nodes().iter().map(state).collect();
            for (node, state) in states.iter().enumerate() {
                if before.get(node) != Some(state) {
                    self.record
                        .line(now(), &format!("state {number} {node} {state}"));
                }
            }
            before = states;
            sleep(Duration::from_millis(25)).await;
            // Whoever sleeps too long cannot tell a silent server from a slow machine.
            if now() - at > SLOW {
                self.record.line(now(), &format!("slow {number} {at}"));
            }
            at = now();
        }
    }
}

fn name(error: &LockError) -> &'static str {
    match error {
        LockError::Contended(_) => "Contended",
        LockError::NoQuorum(_) => "NoQuorum",
        LockError::Quarantined(_) => "Quarantined",
        LockError::Lost(_) => "Lost",
        LockError::Expired(_) => "Expired",
        _ => "Other",
    }
}

/// One call and its section. Its destructor records the end if nobody else could.
struct Visit {
    client: Arc<Client>,
    kind: &'static str,
    id: String,
    keys: Vec<String>,
    wait: Duration,
    hold: Duration,
    panics: bool,
    is_shared: bool,
    has_ended: Mutex<bool>,
}

impl Visit {
    fn new(
        client: &Arc<Client>,
        kind: &'static str,
        key: Option<String>,
        random: &mut Random,
    ) -> Self {
        let number = client.sections.fetch_add(1, Ordering::Relaxed);
        let first = random.below(3);
        let keys = match kind {
            "several" => vec![
                format!("several:{first}"),
                format!("several:{}", (first + 1 + random.below(2)) % 3),
            ],
            "busy" => vec![format!("busy:{}", random.below(64))],
            "burst" => vec![format!("burst:{}", random.below(BURST / 2))],
            kind => vec![key.unwrap_or_else(|| kind.to_owned())],
        };
        let hold = match (kind, random.below(40)) {
            ("held", _) => u64::from(u32::MAX),
            ("busy" | "burst", _) => 0,
            ("renewed" | "leader" | "blocking", 0..10) => 500 + random.below(1_500),
            // Beyond the lease.
            (_, 0) => 1_200,
            _ => random.below(40),
        };
        let is_shared = kind == "shared" && random.below(4) > 0;
        let waits = kind == "attribute" || random.below(8) > 0;
        let visit = Self {
            client: Arc::clone(client),
            kind,
            id: format!("{}.{number}", client.name),
            keys,
            wait: if waits { WAIT } else { Duration::ZERO },
            hold: Duration::from_millis(hold),
            panics: random.below(30) == 0,
            is_shared,
            has_ended: Mutex::new(false),
        };
        let mode = match kind {
            "permits" => "permit",
            _ if is_shared => "shared",
            _ => "exclusive",
        };
        visit.note(
            now(),
            "ask",
            &format!(
                "{kind} {} {mode} {}",
                visit.keys.join(","),
                visit.wait.as_micros()
            ),
        );
        visit
    }

    fn note(&self, at: u64, word: &str, rest: &str) {
        let line = format!("{word} {} {rest}", self.id);
        self.client.record.line(at, line.trim_end());
    }

    fn end(&self, outcome: &str) {
        let mut has_ended = self
            .has_ended
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if !*has_ended {
            *has_ended = true;
            self.note(now(), "end", outcome);
        }
    }

    fn lock(&self) -> Lock {
        let redlock = &self.client.redlock;
        let lock = match &*self.keys {
            [key] => redlock.lock(key),
            keys => redlock.lock_all(keys),
        };
        lock.wait(self.wait)
    }

    async fn call(self: Arc<Self>) -> Result<(), LockError> {
        match self.kind {
            "plain" if self.client.breaks && self.hold.as_millis().is_multiple_of(4) => {
                self.break_in().await;
            }
            "closure" => {
                self.lock()
                    .hold(async |lease| self.body(&lease).await)
                    .await?
            }
            "attribute" => attributed(&self).await?,
            "shared" if self.is_shared => self.guarded(self.lock().shared()).await?,
            "permits" => self.guarded(self.lock().permits(PERMITS)).await?,
            "fair" => self.guarded(self.lock().fair()).await?,
            "at_least" => self.guarded(self.lock().at_least(PERIOD)).await?,
            "renewed" => self.guarded(self.lock().renew()).await?,
            "held" => {
                let lock = self.lock().expire(SOAK.max_lease).renew();
                let lock = lock.max_hold(Duration::MAX);
                self.guarded(lock).await?;
            }
            "leader" => {
                let election = self.client.redlock.leader("leader").wait(self.wait);
                let leadership = election.campaign().await?;
                self.body(&leadership.lease()).await;
                leadership.resign().await;
            }
            "blocking" => {
                let visit = Arc::clone(&self);
                let work = move || visit.lock().hold_blocking(|lease| visit.block(&lease));
                match spawn_blocking(work).await {
                    Ok(done) => done?,
                    Err(panic) => std::panic::resume_unwind(panic.into_panic()),
                }
            }
            "reentrant" => {
                let inner = self.lock().reentrant();
                let body = async |_| inner.hold(async |lease| self.body(&lease).await).await;
                self.lock().hold(body).await??;
            }
            _ => self.guarded(self.lock()).await?,
        }
        Ok(())
    }

    /// Half of the guards are dropped, the others are released.
    async fn guarded(&self, lock: Lock) -> Result<(), LockError> {
        let guard = lock.acquire().await?;
        self.body(&guard.lease()).await;
        if self.hold.as_millis().is_multiple_of(2) {
            guard.release().await;
        }
        Ok(())
    }

    async fn body(&self, lease: &Lease) {
        if !self.enter(lease) {
            return;
        }
        let until = now() + self.hold.as_micros() as u64;
        let step = match self.kind {
            "held" => LONG_STEP,
            _ => STEP,
        };
        while now() < until && self.client.goes_on() {
            sleep(step).await;
            if !self.stay(lease) {
                return;
            }
        }
        self.stay(lease);
    }

    fn block(&self, lease: &Lease) {
        if !self.enter(lease) {
            return;
        }
        let until = now() + self.hold.as_micros() as u64;
        while now() < until {
            thread::sleep(STEP);
            if !self.stay(lease) {
                return;
            }
        }
        self.stay(lease);
    }

    /// The clock comes first here and below: whoever finds then that the lock is held, held it at that time.
    fn enter(&self, lease: &Lease) -> bool {
        let at = now();
        let remaining = lease.remaining().as_micros();
        let token = match lease.fencing_token() {
            Ok(token) => token,
            Err(loss) => {
                self.note(at, "told", &loss.to_string());
                return false;
            }
        };
        self.note(at, "in", &format!("{token} {remaining}"));
        true
    }

    fn stay(&self, lease: &Lease) -> bool {
        let at = now();
        let loss = lease.fencing_token().err();
        match &loss {
            None => self.note(at, "at", ""),
            Some(loss) => self.note(at, "told", &loss.to_string()),
        }
        if self.panics {
            std::panic::panic_any(PLANNED);
        }
        loss.is_none()
    }

    /// What a client does that locks nothing.
    async fn break_in(&self) {
        self.note(now(), "in", "0 0");
        sleep(self.hold.min(WAIT)).await;
        self.note(now(), "at", "");
    }
}

impl Drop for Visit {
    fn drop(&mut self) {
        self.end("dropped");
    }
}

#[redis_lock(key = "attribute", expire = 1, wait = 2s, lease = lease)]
async fn attributed(visit: &Visit) -> Result<(), LockError> {
    visit.body(&lease).await;
    Ok(())
}
