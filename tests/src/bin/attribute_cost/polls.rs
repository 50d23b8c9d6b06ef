//! How often a body is polled, and how often the function around it.

use std::{
    cell::Cell,
    error::Error,
    future::poll_fn,
    pin::{Pin, pin},
    task::{Context, Poll},
    time::Duration,
};

use redlock_runtime::{LockError, redis_lock};
use tokio::time::sleep;

use crate::{functions::yielding, install};

/// Yields to the runtime some times, and counts its polls.
pub(crate) struct Yields<'a> {
    left: u32,
    polls: &'a Cell<u32>,
}

impl<'a> Yields<'a> {
    pub(crate) const fn new(times: u32, polls: &'a Cell<u32>) -> Self {
        Self { left: times, polls }
    }
}

impl Future for Yields<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        self.polls.set(self.polls.get().wrapping_add(1));
        if self.left == 0 {
            return Poll::Ready(());
        }
        self.left -= 1;
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

/// Is renewed about ten times while it sleeps.
#[redis_lock(key = "renewed", expire = 5s, renew = 10ms)]
async fn renewed(polls: &Cell<u32>) -> Result<(), LockError> {
    counted(sleep(Duration::from_millis(100)), polls).await;
    Ok(())
}

async fn counted<F: Future>(future: F, polls: &Cell<u32>) -> F::Output {
    let mut future = pin!(future);
    poll_fn(|context| {
        polls.set(polls.get() + 1);
        future.as_mut().poll(context)
    })
    .await
}

/// Prints how often, and says what is more than it may be.
pub(crate) fn measure() -> Result<Vec<String>, Box<dyn Error>> {
    let runtime = crate::current_thread()?;
    let installed = runtime.block_on(install())?;
    let mut complaints = Vec::new();
    let mut row = |name: &str, [plain, body, whole]: [u32; 3]| {
        let row =
            format!("{name}: {plain} polls of the plain body, {body} with a lock, {whole} in all");
        println!("{row}");
        // One more asks the nodes. It goes on to the body if they answer before it has asked for
        // the answer.
        if body != plain || !(plain..=plain + 1).contains(&whole) {
            complaints.push(row);
        }
    };
    for times in [0, 1, 10, 1000] {
        let plain = Cell::new(0);
        runtime.block_on(yielding::plain(0, Yields::new(times, &plain)))?;
        let (body, whole) = (Cell::new(0), Cell::new(0));
        let annotated = yielding::annotated(0, Yields::new(times, &body));
        runtime.block_on(counted(annotated, &whole))?;
        row(
            &format!("{times} yields"),
            [plain, body, whole].map(Cell::into_inner),
        );
    }
    let (body, whole) = (Cell::new(0), Cell::new(0));
    runtime.block_on(counted(renewed(&body), &whole))?;
    // Once to begin, once when the time is up: renewals are the engine's work alone.
    row("ten renewals", [2, body.into_inner(), whole.into_inner()]);
    drop(installed);
    Ok(complaints)
}

#[test]
fn the_lock_polls_the_body_no_more_often_than_no_lock() -> Result<(), Box<dyn Error>> {
    assert_eq!(measure()?, [""; 0]);
    Ok(())
}
