//! One critical section, from the question to the release: what guards, closures and annotated
//! functions are made of.

use std::{pin::Pin, sync::Arc, time::Duration};

use redlock_protocol::{LockParams, Refusal, Release, Verdict};

use crate::{
    asked::Asked,
    blocking,
    config::{self, ConfigError, ConfigProblem, Options, ProblemKind, Renew, SectionInfo},
    engine::{Acquisition, Engine},
    error::{LockError, NodeVerdict, Report},
    inspect,
    keys::Keys,
    lease::{self, Lease, Unasked},
    nesting,
    node_set::Shared,
    observe::Course,
    script,
    status::Status,
};

/// A section that joins a lease extends it only if more than a twentieth of the time that it asks for is
/// gone: a section that begins within a turn may have as much less than its lease.
const LATENESS: u32 = 20;

/// Adds what the holder says on the first node that has named one. That node has just replied, so this is over soon;
/// at the latest when the call has had its time.
async fn hear_holder(asked: &Asked, report: Report, limit: Duration) -> Report {
    let names = |it: &NodeVerdict| matches!(it.verdict, Verdict::HeldByAnother { .. });
    let Some(place) = report.verdicts().iter().position(names) else {
        return report;
    };
    let (shared, permits) = (&asked.shared, asked.own.keys.permits());
    let limit = limit.saturating_sub(report.elapsed());
    let (target, now) = (&shared.nodes[place].target, shared.engine.now());
    let value = inspect::value(target, (report.key(), permits), now, limit).await;
    report.with_value(value)
}

/// Owns one lease. Dropping it ends the lease in whatever phase it is: that never
/// blocks, never panics, and needs no runtime.
#[derive(Debug)]
pub struct Section {
    /// The error of a section that has no node set, or no usable key, waits in it for `acquire`.
    pub(crate) lease: Lease,
    /// `None` once the lock was asked for, unless the section shows a value: nothing else needs it any more.
    wanted: Option<Box<Wanted>>,
    course: Course,
    /// True from the moment a request may be sent until the end is told.
    begun: bool,
    /// The nodes keep the lock for a while.
    is_kept: bool,
    /// It waits for the lock.
    waits: bool,
}

/// What an acquisition goes by.
#[derive(Debug)]
struct Wanted {
    options: Options,
    /// The annotated function, if it is one.
    info: Option<&'static SectionInfo>,
    /// What the holder says to those who look at the lock.
    value: Option<Arc<str>>,
}

impl Wanted {
    fn params(&self, asked: &Asked) -> Result<LockParams, ConfigError> {
        let several = asked.own.keys.several().is_some();
        let params = self.options.params(&asked.shared.settings, several);
        params.map_err(|error| error.in_section(self.info))
    }
}

impl Section {
    pub(crate) fn on(
        shared: Result<Arc<Shared>, LockError>,
        keys: Keys,
        options: Options,
        (name, info): (Option<&'static str>, Option<&'static SectionInfo>),
    ) -> Self {
        let mut keys = keys;
        let shared = shared.and_then(|shared| {
            if keys.iter().any(|key| key.is_empty()) {
                return Err(LockError::EmptyKey { placeholder: None });
            }
            keys.put_before(&shared.settings.key_prefix);
            if let (Keys::One(key), Some(_)) = (&keys, options.permits) {
                let member = options.member(Arc::clone(key));
                keys = Keys::permits_of(member);
            }
            let mut problems = config::problems_of_keys(keys.iter());
            let problem = keys.problem();
            problems.extend(problem.map(|fact| ConfigProblem::option("key", fact)));
            ConfigError::unless_empty(problems).map_err(|error| error.in_section(info))?;
            Ok(shared)
        });
        let key = Arc::clone(keys.text());
        let asked = shared.and_then(|shared| {
            let outer = nesting::find(&shared, &keys);
            let extends_to = match options.renew {
                Renew::Never => options.expire.unwrap_or(shared.settings.expire),
                Renew::Default | Renew::Every(_) => Duration::ZERO,
            };
            let id = shared.engine.new_section();
            let since = shared.engine.now();
            let own = Status::new(id, keys, name, since, extends_to, options.mode());
            let mut asked = Asked {
                own: Arc::new(own),
                around: None,
                shared,
            };
            if let Some(outer) = outer {
                let status = outer.status();
                if !options.reentrant || !asked.own.keys.are_within(&outer.own.keys) {
                    return Err(LockError::Nested(asked.report().within(status.name)));
                }
                let is_shared = (options.shared, status.is_shared());
                if asked.own.keys.upgrade(&outer.own.keys, is_shared) {
                    return Err(LockError::Upgrade(asked.report().within(status.name)));
                }
                asked.around = Some(Arc::clone(status));
            }
            Ok(asked)
        });
        let asked = asked.map_err(|error| Box::new(Unasked { key, error }));
        Self {
            lease: Lease { asked },
            wanted: Some(Box::new(Wanted {
                options,
                info,
                value: options.leader.then(|| "".into()),
            })),
            course: Course::default(),
            begun: false,
            is_kept: options.at_least.is_some(),
            waits: !options.wait.is_zero(),
        }
    }

    /// Not every kind of lock can be shared by its holder.
    pub(crate) fn check_can_share(&self) -> Result<(), LockError> {
        let keys = &self.lease.asked()?.own.keys;
        let other = match keys.permits() {
            Some(_) => "`permits`",
            None if keys.several().is_some() => "several keys",
            None if self.is_kept => "`at_least`",
            None => return Ok(()),
        };
        let fact = format!("a lock with {other} cannot be downgraded to a shared one");
        let problem = ConfigProblem::new(ProblemKind::NotTogether, "shared", fact, "");
        Err(ConfigError::of(problem).into())
    }

    /// With this value beside the lock, once it is held.
    pub(crate) fn showing(mut self, value: Option<Arc<str>>) -> Self {
        if let Some(wanted) = &mut self.wanted {
            wanted.value = value.or_else(|| wanted.value.take());
        }
        self
    }

    /// Shows this text beside the lock, once it is held.
    #[must_use]
    pub fn with_value(self, value: impl AsRef<str>) -> Self {
        self.showing(Some(value.as_ref().into()))
    }

    /// Returns a view on the lease, of use once it is held.
    pub fn lease(&self) -> Lease {
        self.lease.clone()
    }

    /// Asks for the lock, or joins that of a section around it.
    // What is rare is in boxes, because this is part of the task of each caller that waits.
    pub async fn acquire(&mut self) -> Result<(), LockError> {
        let Some(answer) = self.ask()? else {
            return Box::pin(self.join()).await;
        };
        let answer = answer.await;
        let outcome = self.on_answer(answer);
        match self.wanted.take() {
            Some(wanted) => Box::pin(self.show(&wanted, outcome)).await,
            None => outcome,
        }
    }

    /// Asks for the lock, unless this section joins another one.
    fn ask(&mut self) -> Result<Option<Acquisition>, LockError> {
        let asked = self.lease.asked()?;
        let Asked { shared, own, .. } = asked;
        let Some(wanted) = self.wanted.as_ref().filter(|_| !self.begun) else {
            return Err(asked.over_error());
        };
        let params = wanted.params(asked)?;
        if let Some(value) = &wanted.value {
            wanted.options.check_value(value)?;
        }
        if asked.is_joined() {
            return Ok(None);
        }
        shared.check_clock()?;
        // From here on, dropping this section is what releases, also while the answer is awaited.
        self.begun = true;
        let Shared {
            engine, observer, ..
        } = &**shared;
        self.course = observer.asked(own);
        self.wanted.take_if(|wanted| wanted.value.is_none());
        Ok(Some(engine.acquire(own, params)))
    }

    /// Shows what the holder says beside its lock, or hears what another one says.
    async fn show(&self, wanted: &Wanted, outcome: Result<(), LockError>) -> Result<(), LockError> {
        let (Some(value), Ok(asked)) = (&wanted.value, &self.lease.asked) else {
            return outcome;
        };
        let Asked { shared, own, .. } = asked;
        match outcome {
            Ok(()) => {
                let note = script::note(own.token(), value).into();
                shared.engine.note(own.section, note);
                Ok(())
            }
            Err(LockError::Contended(report)) if !value.is_empty() => {
                let params = wanted.params(asked)?;
                let limit = params.wait.saturating_add(params.node_timeout);
                let report = hear_holder(asked, report, limit).await;
                Err(LockError::Contended(report))
            }
            refused => refused,
        }
    }

    fn on_answer(&mut self, answer: Result<(), Box<Refusal>>) -> Result<(), LockError> {
        let asked = self.lease.asked()?;
        let Asked { shared, own, .. } = asked;
        let now = shared.engine.now();
        let outcome = match answer {
            Ok(()) if own.is_held(now) => Ok(()),
            // The caller was not polled while its lease went by.
            Ok(()) => Err(asked.over_error()),
            Err(refusal) => {
                self.begun = false;
                let key = refusal.key.unwrap_or_else(|| Arc::clone(own.key()));
                let report = asked.report_of(key).asked_once(!self.waits);
                let report = report.said(&shared.addresses, refusal.verdicts);
                Err(LockError::refused(refusal.cause, report))
            }
        };
        let observer = &shared.observer;
        observer.answered(&mut self.course, own, &outcome, now);
        outcome
    }

    /// Asks the nodes for nothing, unless the lease ends sooner than this section may last and is not
    /// renewed.
    async fn join(&mut self) -> Result<(), LockError> {
        let asked = self.lease.asked()?;
        let Some(wanted) = self.wanted.take() else {
            return Err(asked.over_error());
        };
        let wanted = wanted.params(asked)?.lease;
        let remaining = asked.remaining();
        if remaining.is_zero() {
            return Err(asked.over_error());
        }
        let wanted = wanted.min(asked.status().extends_to());
        if remaining < wanted - wanted / LATENESS && self.lease.extend().await?.is_zero() {
            // The caller was not polled while its lease went by.
            return Err(asked.over_error());
        }
        Ok(())
    }

    /// Polls `body` while the lease can be trusted, and not again once that has ended. The caller
    /// destroys it before anything else.
    // Not an `async fn`, which would bring callers nearer to the compiler's recursion limit.
    pub fn hold<B: Future>(
        &mut self,
        body: Pin<&mut B>,
    ) -> impl Future<Output = Result<B::Output, LockError>> {
        lease::run(&self.lease, &self.course, body)
    }

    /// Acquires the lock on a thread that may sleep.
    pub(crate) fn acquire_blocking(&mut self) -> Result<(), LockError> {
        if let Ok(asked) = &self.lease.asked {
            let engine = &asked.shared.engine;
            let refused = blocking::refuse(engine.needs_threads_of_others());
            let info = self.wanted.as_ref().and_then(|wanted| wanted.info);
            refused.map_err(|error| error.in_section(info))?;
        }
        blocking::block_on(self.acquire())
    }

    /// Runs `body` under the lease, to its end: nothing can stop it. So what it returns is what
    /// counts, whatever has become of the lease.
    pub(crate) fn within<T>(&mut self, body: impl FnOnce() -> T) -> Result<T, LockError> {
        let asked = self.lease.asked()?;
        let mut enclosing = Some(asked.clone());
        let _span = self.course.enter();
        Ok(nesting::within(&mut enclosing, body))
    }

    /// Ends the lease, and tells what became of the release.
    pub(crate) fn release(mut self) -> impl Future<Output = Release> + Send {
        let begun = std::mem::take(&mut self.begun);
        let otherwise = match &self.lease.asked {
            Ok(asked) if asked.is_joined() && asked.remaining().is_zero() => {
                Release::AlreadyExpired
            }
            Ok(asked) if asked.is_joined() => Release::Joined,
            _ => Release::Unknown,
        };
        let asked = self.lease.asked.as_ref().ok().filter(|_| begun);
        let released = asked.map(|asked| asked.end(&mut self.course, Engine::end_and_report));
        async move {
            match released {
                Some(release) => release.await,
                None => otherwise,
            }
        }
    }

    pub(crate) fn release_blocking(self) -> Release {
        let must_not_wait = |asked: &Asked| {
            let engine = &asked.shared.engine;
            blocking::refuse(engine.needs_threads_of_others()).is_err()
        };
        // Without a question for the lock there is nothing to wait for.
        let refused = self.begun && self.lease.asked.as_ref().is_ok_and(must_not_wait);
        let released = self.release();
        if refused {
            return Release::Unknown;
        }
        blocking::block_on(released)
    }
}

impl Drop for Section {
    fn drop(&mut self) {
        if let (true, Ok(asked)) = (self.begun, &self.lease.asked) {
            asked.end(&mut self.course, Engine::end);
        }
    }
}
