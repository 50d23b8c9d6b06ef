//! Tells the stalls of the machine from those of the lock.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

/// A thread that does nothing but sleep, and how late it has woken at worst.
#[derive(Clone)]
pub(crate) struct Watch(Arc<AtomicU64>);

impl Watch {
    pub(crate) fn start() -> Self {
        const NAP: Duration = Duration::from_millis(20);
        let watch = Self(Arc::default());
        let worst = watch.clone();
        thread::spawn(move || {
            loop {
                let since = Instant::now();
                thread::sleep(NAP);
                let late = since.elapsed().saturating_sub(NAP);
                worst
                    .0
                    .fetch_max(late.as_micros() as u64, Ordering::Relaxed);
            }
        });
        watch
    }

    /// What has been before does not count.
    pub(crate) fn begin(&self) {
        self.0.store(0, Ordering::Relaxed);
    }

    pub(crate) fn worst_us(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
