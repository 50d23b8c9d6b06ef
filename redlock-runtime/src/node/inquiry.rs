//! Questions of operators, over connections of their own: nothing of them is between the requests of
//! callers, and a node set need not be at work.

use std::{sync::Arc, thread, time::Duration};

use futures_util::future::join_all;
use redis::Value;
use tokio::{sync::oneshot, time::timeout};

use super::{connection, endpoint::Endpoint, reason::reason};
use crate::script::Command;

/// Asks each server what stands beside it; all replies of a server in order, errors among them, or why it
/// has given none within `limit`. On a thread of its own, so that it can be awaited anywhere.
pub(crate) async fn inquire(
    questions: Vec<(Endpoint, Vec<Vec<String>>)>,
    limit: Duration,
) -> Vec<Result<Vec<Value>, Arc<str>>> {
    let count = questions.len();
    let (answer, answered) = oneshot::channel();
    let failed = |reason: Arc<str>| vec![Err(reason); count];
    let ask_all = move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        let runtime = match runtime {
            Ok(runtime) => runtime,
            Err(error) => return drop(answer.send(vec![Err(reason(&error)); count])),
        };
        let all = questions.iter().map(async |(endpoint, commands)| {
            let replies = timeout(limit, ask(endpoint, commands)).await;
            replies.unwrap_or_else(|_| Err(format!("no reply within {limit:.1?}").into()))
        });
        drop(answer.send(runtime.block_on(join_all(all))));
    };
    let started = thread::Builder::new().name("redlock-inquiry".to_owned());
    match started.spawn(ask_all) {
        Ok(_) => answered
            .await
            .unwrap_or_else(|_| failed("the question was not asked".into())),
        Err(error) => failed(reason(&error)),
    }
}

async fn ask(endpoint: &Endpoint, commands: &[Vec<String>]) -> Result<Vec<Value>, Arc<str>> {
    let commands: Vec<Command<'_>> = commands.iter().map(|words| text(words)).collect();
    let mut wire = connection::open_plain(endpoint).await?;
    wire.exchange(&commands).await
}

fn text(words: &[String]) -> Command<'_> {
    let words = words.iter().map(|word| crate::script::Word::Text(word));
    words.collect()
}
