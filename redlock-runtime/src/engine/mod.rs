//! The only runtime and clock. Owns connections, timers, renewals and releases, so that
//! they live on when a caller's future, task or whole runtime is gone. Callers lend it their threads for
//! what they ask. Knows no rule of the protocol.

mod combiner;
mod command;
mod delivery;
mod driver;
mod pump;
mod signal;

use std::{
    hash::{BuildHasher, BuildHasherDefault, DefaultHasher},
    pin::{Pin, pin},
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    task::{Context, Poll, ready},
    thread,
    time::Duration,
};

use futures_util::future::select;
use redlock_protocol::{
    Env, Event, Instant, LockParams, NodeState, Protocol, Refusal, Release, SectionId, Settings,
    ShutdownError, Verdict,
};
use tokio::{
    runtime::{Handle, RuntimeFlavor},
    sync::{oneshot, watch},
    task::{JoinSet, consume_budget},
};
use uuid::Uuid;

use self::{
    combiner::{Combiner, EndsWithTask},
    command::{Caller, Command},
    driver::Driver,
    pump::Pump,
};
use crate::{
    clock::{self, Clock, is_paused_here},
    node::{ClientProcess, Sockets, Target},
    observe::Observer,
    status::{Status, Stopped},
};

/// How long releases are still carried out after the last handle of an engine is gone.
const LAST_RELEASES: Duration = Duration::from_secs(1);

/// What comes of an acquisition, once it has come to anything.
#[derive(Debug)]
pub(crate) struct Acquisition(Arc<Status>);

impl Future for Acquisition {
    type Output = Result<(), Box<Refusal>>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let answer = ready!(self.0.poll_answer(cx));
        // Else a task that never has to wait would keep others from running.
        ready!(pin!(consume_budget()).poll(cx));
        Poll::Ready(answer)
    }
}

impl Drop for Acquisition {
    fn drop(&mut self) {
        self.0.stop_waiting();
    }
}

/// Where the answer to a command comes from.
type Asked<T> = Result<oneshot::Receiver<T>, Stopped>;

async fn heard<T>(asked: Asked<T>) -> Result<T, Stopped> {
    asked?.await.map_err(|_| Stopped)
}

/// What an engine needs to start.
pub(crate) struct Config {
    pub(crate) nodes: Vec<Target>,
    pub(crate) observer: Arc<Observer>,
    pub(crate) settings: Settings,
    /// What this process is called on the nodes.
    pub(crate) service: String,
    /// Runs in the current runtime, and not on a thread of its own: in a test, whose clock may be paused.
    pub(crate) is_in_runtime: bool,
    /// Makes every run of a test draw the same numbers.
    pub(crate) seed: Option<u64>,
}

/// The way to ask an engine for something. Dropping it ends the engine, releases first.
pub(crate) struct Engine {
    combiner: Arc<Combiner>,
    pub(crate) clock: Clock,
    /// That it works on.
    runtime: Handle,
    nodes: watch::Receiver<Vec<Option<NodeState>>>,
    under_replicated: Arc<AtomicUsize>,
    next_section: AtomicU64,
    /// What this process is called on the nodes.
    pub(crate) client: ClientProcess,
    /// The process that started it: a fork has this memory, but not the thread.
    process: u32,
    own_thread: bool,
}

impl Config {
    fn clock(&self) -> Clock {
        match self.is_in_runtime {
            true => Clock::of_this_runtime(),
            false => Clock::System,
        }
    }

    fn random(&self) -> Box<dyn FnMut() -> u128 + Send> {
        let Some(seed) = self.seed else {
            return Box::new(|| Uuid::new_v4().as_u128());
        };
        let hash = BuildHasherDefault::<DefaultHasher>::default();
        let mut numbers = (seed..).map(move |number| u128::from(hash.hash_one(number)));
        let mut next = move || numbers.next().unwrap_or_default();
        Box::new(move || (next() << 64) | next())
    }
}

impl Engine {
    /// Starts an engine. Fails if the operating system gives it no thread.
    pub(crate) fn start(config: Config) -> std::io::Result<Self> {
        // A thread of its own renews leases while the application's runtime is blocked.
        let own_thread = !config.is_in_runtime;
        let clock = config.clock();
        let protocol = Protocol::new(
            config.nodes.len(),
            config.settings,
            Env {
                random: config.random(),
                wall_micros: Box::new(clock::wall_micros),
            },
            clock.now(),
        );
        let client = ClientProcess::this(protocol.process(), Some(&config.service));
        let mut own = tokio::runtime::Builder::new_current_thread();
        let own = own_thread.then(|| own.enable_all().build()).transpose()?;
        let runtime = own
            .as_ref()
            .map_or_else(Handle::current, |own| own.handle().clone());
        let sockets = own_thread.then(|| Sockets::new(config.nodes.len()));
        let sockets = sockets.and_then(Result::ok).map(Arc::new);
        // A runtime without I/O says so by a panic, which ends the task.
        let pump = Handle::try_current().ok();
        let pump = pump.filter(|_| sockets.is_some() && cfg!(panic = "unwind"));
        // Connections register with the runtime that is entered when they are made.
        let guard = runtime.enter();
        let nodes_of = (config.nodes, client.name().into());
        let observer = Arc::clone(&config.observer);
        let driver = Driver::new(protocol, clock.clone(), nodes_of, sockets.clone(), observer);
        // Whatever fails below, the caller's own runtime is the current one again.
        drop(guard);
        let nodes = driver.node_states.subscribe();
        let under_replicated = Arc::clone(&driver.under_replicated);
        let of_pump = pump.as_ref().map(|runtime| Pump::new(runtime.id()));
        let (observer, of_sockets) = (config.observer, (sockets, of_pump));
        let combiner = Combiner::new(driver, clock.clone(), observer, own_thread, of_sockets);
        let combiner = Arc::new(combiner);
        if let Some(runtime) = pump {
            runtime.spawn(combiner.pump());
        }
        let run = EndsWithTask(Arc::clone(&combiner)).run();
        match own {
            Some(own) => {
                let thread = thread::Builder::new().name("redlock".to_owned());
                // Detached: it ends by itself when the last handle is gone and the releases are sent.
                thread.spawn(move || own.block_on(run))?;
            }
            None => drop(runtime.spawn(run)),
        }
        Ok(Self {
            combiner,
            clock,
            runtime,
            nodes,
            under_replicated,
            next_section: AtomicU64::new(0),
            client,
            process: std::process::id(),
            own_thread,
        })
    }

    /// How many locks are held, and not known to stand on all nodes.
    pub(crate) fn under_replicated(&self) -> usize {
        self.under_replicated.load(Ordering::Relaxed)
    }

    pub(crate) fn now(&self) -> Instant {
        self.clock.now()
    }

    /// By the timers of the engine's runtime, whoever awaits it; no longer than that lives.
    pub(crate) fn sleep(&self, time: Duration) -> impl Future + Unpin + use<> {
        self.runtime
            .spawn(async move { tokio::time::sleep(time).await })
    }

    /// Runs a task on the engine's runtime, for as long as the engine works and the result exists.
    pub(crate) fn run_along(&self, task: impl Future<Output = ()> + Send + 'static) -> JoinSet<()> {
        let mut nodes = self.nodes.clone();
        let ended = async move { while nodes.changed().await.is_ok() {} };
        let task = async move { select(pin!(task), pin!(ended)).await.factor_first().0 };
        let mut running = JoinSet::new();
        running.spawn_on(task, &self.runtime);
        // It may have ended meanwhile, and nothing would stop the task.
        if self.has_ended() {
            running.abort_all();
        }
        running
    }

    /// True if the tokio clock is paused here and this engine goes by the operating system's: a test
    /// that advances its clock would not move the leases.
    pub(crate) fn ignores_paused_clock(&self) -> bool {
        matches!(self.clock, Clock::System) && is_paused_here()
    }

    pub(crate) fn new_section(&self) -> SectionId {
        SectionId(self.next_section.fetch_add(1, Ordering::Relaxed))
    }

    /// Whether blocking a thread may keep the engine from work, whichever thread that is.
    pub(crate) fn needs_threads_of_others(&self) -> bool {
        // Other flavors have threads of their own.
        !self.own_thread && self.runtime.runtime_flavor() == RuntimeFlavor::CurrentThread
    }

    /// False where blocking this thread would keep the engine from the work it is waited for.
    pub(crate) fn works_while_this_thread_waits(&self) -> bool {
        let here = Handle::try_current();
        self.own_thread
            || here.is_ok_and(|runtime| runtime.runtime_flavor() != RuntimeFlavor::CurrentThread)
    }

    /// Asks for the lock at once, and not when what it returns is awaited.
    pub(crate) fn acquire(&self, status: &Arc<Status>, params: LockParams) -> Acquisition {
        status.ask(&params);
        let caller = Caller(Arc::clone(status));
        // An engine that has stopped drops the caller, and so says that it has.
        let _ = self.tell(Command::Acquire { params, caller });
        Acquisition(Arc::clone(status))
    }

    /// Hands in what a section that is held asks for. Fails with what each node said if no majority has heard of it
    /// in time.
    pub(crate) async fn renew(
        &self,
        section: SectionId,
        event: Event,
    ) -> Result<Result<(), Vec<Verdict>>, Stopped> {
        let renew = |answer| Command::Renew {
            section,
            event,
            answer,
        };
        heard(self.ask(renew)).await
    }

    /// The holder says something to those who look at the lock.
    pub(crate) fn note(&self, section: SectionId, note: Arc<str>) {
        // Nobody looks at the locks of a stopped engine.
        let _ = self.tell(Command::Tell(Event::Note { section, note }));
    }

    /// Ends a lease in whatever phase it is. Never blocks, and may be called from anywhere.
    pub(crate) fn end(&self, section: SectionId) {
        // A stopped engine can release nothing; the key TTL will.
        let _ = self.tell(Command::End {
            section,
            answer: None,
        });
    }

    /// Ends the lease, and tells what became of the release. The release is on its way once this is called,
    /// whether the answer is awaited or not.
    pub(crate) fn end_and_report(
        &self,
        section: SectionId,
    ) -> impl Future<Output = Release> + Send + use<> {
        let asked = self.ask(|answer| Command::End {
            section,
            answer: Some(answer),
        });
        async move { heard(asked).await.unwrap_or(Release::Unknown) }
    }

    /// The sections of this process that have a lock, or wait for it, in the order of asking; none of an
    /// engine that has ended.
    pub(crate) async fn look(&self, key: Arc<str>) -> Vec<Arc<Status>> {
        let asked = self.ask(|answer| Command::Look { key, answer });
        heard(asked).await.unwrap_or_default()
    }

    pub(crate) fn shutdown(
        &self,
        timeout: Duration,
        abort_holders: bool,
        done: impl FnOnce(ShutdownError) + Send + 'static,
    ) -> Result<(), Stopped> {
        let event = Event::Shutdown {
            timeout,
            abort_holders,
        };
        let done = Box::new(done);
        self.tell(Command::Shutdown { event, done })
    }

    /// Waits until every node has connected or failed once.
    pub(crate) async fn settled(&self) -> Result<(), Stopped> {
        let is_settled = || self.nodes.borrow().iter().all(Option::is_some);
        self.when(is_settled).await
    }

    /// Waits until `is_so`, which is asked now and whenever a node's state has changed.
    pub(crate) async fn when(&self, mut is_so: impl FnMut() -> bool) -> Result<(), Stopped> {
        let mut nodes = self.nodes.clone();
        while !is_so() {
            // Subscribed before the question, so that no change between the two is missed.
            nodes.changed().await.map_err(|_| Stopped)?;
        }
        Ok(())
    }

    /// The nodes' connections; `None` before the first attempt has come to anything.
    pub(crate) fn node_states(&self) -> Vec<Option<NodeState>> {
        self.nodes.borrow().clone()
    }

    /// No engine watches the nodes any more: it was shut down, died, or is another process's.
    pub(crate) fn has_ended(&self) -> bool {
        self.is_of_parent() || self.nodes.has_changed().is_err()
    }

    fn is_of_parent(&self) -> bool {
        // Asked each time: there is no notice of a fork without unsafe code.
        std::process::id() != self.process
    }

    fn ask<T>(&self, command: impl FnOnce(oneshot::Sender<T>) -> Command) -> Asked<T> {
        // The sender is dropped with the engine, which is an answer, too: `Stopped`.
        let (answer, answered) = oneshot::channel();
        self.tell(command(answer)).map(|()| answered)
    }

    fn tell(&self, command: Command) -> Result<(), Stopped> {
        if self.is_of_parent() {
            return Err(Stopped);
        }
        self.combiner.tell(command)
    }
}

/// No handle is left to ask for anything; what was released last still has to reach the nodes.
impl Drop for Engine {
    fn drop(&mut self) {
        let _ = self.shutdown(LAST_RELEASES, true, drop);
    }
}
