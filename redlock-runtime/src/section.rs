//! One critical section, from the question to the release: what guards, closures and annotated
//! functions are made of.

use std::{
    future::poll_fn,
    pin::{Pin, pin},
    sync::Arc,
    task::Poll,
};

use redlock_protocol::Release;

use crate::{
    config::{self, ConfigError, Options, SectionInfo},
    engine::Stopped,
    error::LockError,
    lease::{Asked, Lease},
    node_set::Shared,
};

/// Owns one lease. Dropping it ends the lease in whatever phase it is, with one message to the
/// engine: it never blocks, never panics, and needs no runtime.
#[derive(Debug)]
pub(crate) struct Section {
    key: Arc<str>,
    options: Options,
    /// The annotated function, if it is one.
    info: Option<&'static SectionInfo>,
    /// The error of a section that has no node set, or no usable key, waits for `acquire`.
    asked: Result<Asked, LockError>,
    /// True from the moment a request may be sent until the end is told.
    begun: bool,
}

impl Section {
    pub(crate) fn new(
        shared: Result<Arc<Shared>, LockError>,
        key: Arc<str>,
        options: Options,
        info: Option<&'static SectionInfo>,
    ) -> Self {
        let shared = shared.and_then(|shared| match &*key {
            "" => Err(LockError::empty_key()),
            _ => Ok(shared),
        });
        let key = match &shared {
            Ok(shared) if !shared.settings.key_prefix.is_empty() => {
                format!("{}{key}", shared.settings.key_prefix).into()
            }
            _ => key,
        };
        let shared = shared.and_then(|shared| match config::reserved_key(&key) {
            Some(problem) => Err(named(info)(ConfigError::of(problem)).into()),
            None => Ok(shared),
        });
        Self {
            key,
            options,
            info,
            asked: shared.map(|shared| Asked {
                section: shared.engine.new_section(),
                name: info.map(SectionInfo::name),
                status: Arc::default(),
                since: shared.engine.now(),
                shared,
            }),
            begun: false,
        }
    }

    /// A view on the lease, of use once it is held.
    pub(crate) fn lease(&self) -> Lease {
        Lease::new(Arc::clone(&self.key), self.asked.clone())
    }

    pub(crate) async fn acquire(&mut self) -> Result<(), LockError> {
        let asked = self.asked.as_ref().map_err(Clone::clone)?;
        let Asked {
            shared,
            section,
            status,
            ..
        } = asked;
        let params = self.options.params(&shared.settings);
        let params = params.map_err(named(self.info))?;
        shared.check_clock()?;
        #[cfg(feature = "test-util")]
        asked.note_ask(&self.key);
        // From here on, dropping this section is what releases, also while the answer is awaited.
        self.begun = true;
        let key = Arc::clone(&self.key);
        let answer = shared
            .engine
            .acquire(*section, key, params, Arc::clone(status))
            .await;
        let outcome = match answer {
            Ok(Ok(())) if status.is_held(shared.engine.now()) => Ok(()),
            // The caller was not polled while its lease went by.
            Ok(Ok(())) => Err(asked.over_error(&self.key)),
            Ok(Err(refusal)) => {
                self.begun = false;
                Err(LockError::refused(refusal, &asked.context(&self.key)))
            }
            Err(Stopped) => Err(LockError::stopped(&asked.context(&self.key))),
        };
        #[cfg(feature = "test-util")]
        asked.note_outcome(&outcome);
        outcome
    }

    /// Polls `body` while the lease can be trusted, and not again once that has ended. The caller
    /// destroys it before anything else.
    pub(crate) async fn hold<B: Future>(
        &mut self,
        mut body: Pin<&mut B>,
    ) -> Result<B::Output, LockError> {
        let asked = self.asked.as_ref().map_err(Clone::clone)?;
        let Asked { shared, status, .. } = asked;
        let mut ended = pin!(status.ended());
        let finished = poll_fn(|context| {
            // The clock and not the engine has the last word, so that a deadline holds also
            // where the news of it comes late.
            let over = ended.as_mut().poll(context).is_ready();
            if over || !status.is_held(shared.engine.now()) {
                return Poll::Ready(None);
            }
            body.as_mut().poll(context).map(Some)
        })
        .await;
        shared.check_clock()?;
        finished.ok_or_else(|| asked.over_error(&self.key))
    }

    /// Ends the lease, and tells what became of the release.
    pub(crate) fn release(mut self) -> impl Future<Output = Release> + Send {
        let begun = std::mem::take(&mut self.begun);
        let released = self.asked.as_ref().ok().filter(|_| begun).map(|asked| {
            #[cfg(feature = "test-util")]
            asked.note_end();
            asked.status.release();
            asked.shared.engine.end_and_report(asked.section)
        });
        async move {
            match released {
                Some(release) => release.await,
                None => Release::Unknown,
            }
        }
    }
}

/// Says which annotated function cannot work.
fn named(info: Option<&'static SectionInfo>) -> impl Fn(ConfigError) -> ConfigError {
    move |error| match info {
        Some(info) => error.in_section(info),
        None => error,
    }
}

impl Drop for Section {
    fn drop(&mut self) {
        if let (true, Ok(asked)) = (self.begun, &self.asked) {
            #[cfg(feature = "test-util")]
            asked.note_end();
            asked.status.release();
            asked.shared.engine.end(asked.section);
        }
    }
}
