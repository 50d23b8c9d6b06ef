//! What is done under a lock, and whether another one does it at the same time.

use std::{
    fs::File,
    io,
    os::unix::fs::FileExt,
    sync::{Arc, mpsc},
    thread,
    time::{Duration, Instant},
};

use tokio::sync::oneshot;

/// The sections of one worker, on a record that all workers of all processes share: who is inside.
pub(crate) struct Sections {
    record: Arc<File>,
    worker: u64,
    hold: Duration,
    sleeper: Sleeper,
    pub(crate) seen: Seen,
}

/// What a worker has seen in its sections.
#[derive(Clone, Copy, Default)]
pub(crate) struct Seen {
    /// Another one was inside when this one came or went.
    pub(crate) overlaps: u64,
    pub(crate) sections: u64,
    pub(crate) held: Duration,
}

impl Sections {
    pub(crate) fn new(
        record: Arc<File>,
        process: u64,
        worker: u64,
        hold: Duration,
        sleeper: Sleeper,
    ) -> Self {
        Self {
            record,
            worker: process * 1_000 + worker + 1,
            hold,
            sleeper,
            seen: Seen::default(),
        }
    }

    /// One section.
    pub(crate) async fn section(&mut self) -> io::Result<()> {
        let since = Instant::now();
        self.seen.overlaps += u64::from(read(&self.record)? != 0);
        let visit = Visit::enter(&self.record, self.worker)?;
        if self.hold.is_zero() {
            // Or else no task of this thread could ever be found inside by another.
            tokio::task::yield_now().await;
        } else {
            self.sleeper.sleep(self.hold).await;
        }
        self.seen.overlaps += u64::from(!visit.is_alone()?);
        self.seen.sections += 1;
        self.seen.held += since.elapsed();
        Ok(())
    }
}

/// Ends also with a section that is cut off.
struct Visit<'a> {
    record: &'a File,
    worker: u64,
}

impl<'a> Visit<'a> {
    fn enter(record: &'a File, worker: u64) -> io::Result<Self> {
        write(record, worker)?;
        Ok(Self { record, worker })
    }

    fn is_alone(&self) -> io::Result<bool> {
        Ok(read(self.record)? == self.worker)
    }
}

impl Drop for Visit<'_> {
    fn drop(&mut self) {
        if self.is_alone().unwrap_or(false) {
            // The next section tells if it failed.
            let _ = write(self.record, 0);
        }
    }
}

fn read(record: &File) -> io::Result<u64> {
    let mut bytes = [0; 8];
    record.read_exact_at(&mut bytes, 0)?;
    Ok(u64::from_ne_bytes(bytes))
}

fn write(record: &File, value: u64) -> io::Result<()> {
    record.write_all_at(&value.to_ne_bytes(), 0)
}

/// Sleeps for others, one at a time, on a thread of its own: the timer of the runtime counts whole
/// milliseconds, which is as long as the lock is to be held.
#[derive(Clone)]
pub(crate) struct Sleeper(mpsc::Sender<(Duration, oneshot::Sender<()>)>);

impl Sleeper {
    pub(crate) fn start() -> Self {
        let (orders, received) = mpsc::channel::<(Duration, oneshot::Sender<()>)>();
        thread::spawn(move || {
            for (time, done) in received {
                thread::sleep(time);
                let _ = done.send(());
            }
        });
        Self(orders)
    }

    async fn sleep(&self, time: Duration) {
        let (done, slept) = oneshot::channel();
        let _ = self.0.send((time, done));
        let _ = slept.await;
    }
}
