//! What one Sentinel says, and why it is enough: see [`discovery`](super).
//!
//! A sentinel never goes back to an earlier master, because each failover has a higher epoch than all before, and
//! it writes that to disk.
//!
//! Sentinels that forget (a lost configuration file, `SENTINEL REMOVE` and `MONITOR`), and processes that
//! name different sentinels of which no two majorities have one in common, are beyond that: the page
//! on servers says so.

use std::collections::BTreeMap;

use redis::{ConnectionAddr, Value};
use redlock_protocol::Why;

use super::super::{
    address::address_text,
    info::{info, run_id},
    resp,
    wire::Wire,
};
use super::source::{Answer, Master};
use crate::script::words;

pub(super) async fn ask(wire: &mut Wire, name: &str) -> Result<Answer, Why> {
    let questions = [
        words(["SENTINEL", "MASTER", name]),
        words(["INFO", "server"]),
    ];
    let mut replies = wire.exchange(&questions).await?.into_iter();
    let mut next = || replies.next().unwrap_or(Value::Nil);
    let fields = resp::read(next())?;
    let sentinel = info(&next()).as_ref().and_then(run_id);
    let sentinel = sentinel.ok_or("it does not say which process it is (`INFO server`)")?;
    read(&fields, &sentinel).ok_or_else(|| "the reply is not that of a sentinel".into())
}

/// What this sentinel says of a master.
fn read(fields: &BTreeMap<String, String>, sentinel: &str) -> Option<Answer> {
    let field = |name: &str| fields.get(name);
    let number = |name| field(name)?.parse::<u64>().ok();
    let port = u16::try_from(number("port")?).ok()?;
    let address = ConnectionAddr::Tcp(field("ip")?.clone(), port);
    let others = usize::try_from(number("num-other-sentinels")?).ok()?;
    Some(Answer {
        master: Master {
            name: address_text(&address),
            address,
            epoch: number("config-epoch")?,
        },
        by: sentinel.to_owned(),
        count: others.saturating_add(1),
        known: Vec::new(),
        others: Vec::new(),
    })
}
