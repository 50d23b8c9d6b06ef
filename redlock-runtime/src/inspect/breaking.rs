//! Freeing a lock, whoever holds it, for operators.

use std::{sync::Arc, time::Duration};

use redis::Value;
use redlock_protocol::{Instant, Why, majority};

use super::snapshot::ask_servers;
use crate::{
    config::{ConfigError, Node, reserved_key},
    node::{Endpoint, Target, read_reply},
    script::RESERVED,
};

/// A holder may put its key back on a node until it learns that the majority is gone.
const MOST_DELETIONS: usize = 5;

/// Says what stands under a key, in a form that any value has; deletes it if it is among the arguments. So a
/// client that gets the lock after an operator has looked at it keeps it. Readers of a lock that is shared
/// come and go: what is no text has one mark.
const MARK_OR_DELETE: &str = "\
local value = redis.pcall('GET', KEYS[1])
local mark = ''
if type(value) == 'table' then
  mark = 'another type'
elseif value then
  mark = redis.sha1hex(value)
end
for _, known in ipairs(ARGV) do
  if mark == known then
    return redis.call('DEL', KEYS[1])
  end
end
return mark";

/// What stands on a node yet, empty if nothing does; `None` if it was deleted.
type Mark = Option<String>;

/// The nodes of one lock.
#[derive(Debug)]
pub struct Breaking<'a> {
    pub(crate) nodes: &'a [Node],
    /// As it stands on the nodes.
    pub(crate) key: Arc<str>,
    /// How long a node has to reply.
    pub(crate) limit: Duration,
    /// By the clock of the engine, which memory nodes go by.
    pub(crate) now: Instant,
}

impl Breaking<'_> {
    /// Refuses what the library keeps on its nodes beside locks.
    pub fn check(&self) -> Result<(), ConfigError> {
        let reserved = reserved_key(&self.key).filter(|_| self.key.starts_with(RESERVED));
        reserved.map_or(Ok(()), |problem| Err(ConfigError::of(problem)))
    }

    /// Returns what stands under the key now. Fails with what keeps nodes from replying if no majority has replied.
    pub async fn marks(&self) -> Result<Vec<String>, Vec<(Arc<str>, Why)>> {
        let (mut marks, mut failed) = (Vec::new(), Vec::new());
        for (node, done) in self.nodes.iter().zip(self.mark_or_delete(&[]).await) {
            match done {
                Ok(Some(mark)) if !mark.is_empty() => marks.push(mark),
                Ok(_) => {}
                Err(why) => failed.push((Arc::clone(&node.address), why)),
            }
        }
        match self.nodes.len() - failed.len() >= majority(self.nodes.len()) {
            true => Ok(marks),
            false => Err(failed),
        }
    }

    /// Deletes what had these marks, and returns on how many nodes.
    pub async fn delete(&self, marks: &[String]) -> usize {
        let mut most = 0;
        for _ in 0..MOST_DELETIONS {
            let done = self.mark_or_delete(marks).await.into_iter();
            let deleted = done.filter(|done| matches!(done, Ok(None)));
            match deleted.count() {
                0 => break,
                deleted => most = most.max(deleted),
            }
        }
        most
    }

    async fn mark_or_delete(&self, known: &[String]) -> Vec<Result<Mark, Why>> {
        let question = |server: &Endpoint| {
            let key = format!("{}{}", server.tag, self.key);
            let command = ["EVAL", MARK_OR_DELETE, "1", &key].map(str::to_owned);
            vec![[&command[..], known].concat()]
        };
        let mut replies = ask_servers(self.nodes, question, self.limit).await;
        let of_node = |node: &Node| match &node.target {
            Target::Redis(_) => replies().and_then(read),
            Target::Memory(memory) => Ok(memory.delete_marked(&self.key, known, self.now)),
        };
        self.nodes.iter().map(of_node).collect()
    }
}

fn read(replies: Vec<Value>) -> Result<Mark, Why> {
    match replies.into_iter().next() {
        Some(Value::Int(_)) => Ok(None),
        reply => read_reply(reply.unwrap_or(Value::Nil)).map(Some),
    }
}
