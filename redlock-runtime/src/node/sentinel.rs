//! A master that Redis Sentinel manages, as one node.
//!
//! A node is one vote, and after a failover there are two servers that may both grant: the old master may be
//! cut off from its sentinels and still be reached by some clients. Two rules keep the node one vote, whatever
//! the network does:
//!
//! 1. *Leave in time.* A client uses a master only while a majority of all sentinels has named it within the
//!    last [`TRUST`], counted from before they were asked. Each request is checked against that before it is
//!    written.
//! 2. *Come late.* A client that finds a master that has not been admitted in its term of office connects to it
//!    no sooner than [`HANDOVER`] after a majority named it. From then on it is a node that has lost its memory,
//!    because replication may have left out the last locks: the quarantine begins, as after a restart.
//!
//! Why that is enough: a sentinel never goes back to an earlier master, because each failover has a higher
//! epoch than all before, and it writes that to disk. Say that a majority has named the new master to client B
//! at a moment t. Each later answer to client A by a majority includes a sentinel that had answered B, so it does
//! not name the old one. So A was last told of the old master by answers to a question from before t, and sends
//! it nothing after t + `TRUST`. The new master's loss is noted after t + `HANDOVER`, which is more, also if
//! clocks differ by some percent. What the old master has granted is therefore older than the loss, apart
//! from requests on their way, for which every quarantine allows: it lasts until all of that has expired.
//!
//! A server's term of office is named in its marker beside its process: a master that becomes a replica and
//! then a master again has the same process and has forgotten what it had granted.
//!
//! Sentinels that forget (a lost configuration file, `SENTINEL REMOVE` and `MONITOR`), and processes that
//! name different sentinels of which no two majorities have one in common, are beyond that: the page
//! on servers says so. All that are known to a sentinel count, named or not.

use std::{
    sync::{Arc, PoisonError},
    time::Duration,
};

use futures_util::{StreamExt, stream::FuturesUnordered};
use redis::{ConnectionAddr, Value};
use redlock_protocol::Facts;
use tokio::time::timeout;

use super::{
    endpoint::{AbortOnDrop, Credentials, Master, Sentinels, address_text},
    guarded::{Trust, Watch},
    info,
    reason::reason,
    sign_in, stream,
    wire::Wire,
};
use crate::{clock, script::words};

/// For so long the word of the sentinels is relied on.
const TRUST: Duration = Duration::from_secs(5);

/// So long after it was named a new master is not used: all others have left the old one by then, by clocks
/// that differ by less than a tenth.
const HANDOVER: Duration = Duration::from_millis(5_500);

/// How often the sentinels are asked while a master is used.
const PAUSE: Duration = Duration::from_secs(1);

/// A sentinel that takes longer has not answered.
const PATIENCE: Duration = Duration::from_millis(500);

/// What one sentinel says.
struct Answer {
    master: Master,
    /// The sentinel's process: two addresses may lead to one.
    sentinel: String,
    /// How many sentinels it knows, itself included.
    sentinels: usize,
}

impl Sentinels {
    /// The master that a majority names, and what watches that it goes on doing so.
    pub(super) async fn find(self: &Arc<Self>) -> Result<(InOffice, Watch), Arc<str>> {
        let asked = clock::now();
        let mut wires: Vec<_> = self.addresses.iter().map(|_| None).collect();
        let master = self.agree(&mut wires, true).await?;
        let now = clock::now();
        let mut named = self.named.lock().unwrap_or_else(PoisonError::into_inner);
        let is_known = named.as_ref().is_some_and(|(known, _)| *known == master);
        if !is_known {
            *named = Some((master.clone(), now));
        }
        drop(named);
        let trust = Arc::new(Trust::until(asked.after(TRUST)));
        let watching = watch(Arc::clone(self), wires, master.clone(), Arc::clone(&trust));
        let sentinels = Arc::clone(self);
        let office = InOffice { sentinels, master };
        let task = AbortOnDrop(tokio::spawn(watching));
        Ok((office, Watch::new(trust, task)))
    }

    /// For how long a master must still not be used that has not been admitted in this term.
    fn handover(&self, master: &Master) -> Duration {
        let named = self.named.lock().unwrap_or_else(PoisonError::into_inner);
        match &*named {
            Some((known, since)) if known == master => {
                HANDOVER.saturating_sub(clock::now().since(*since))
            }
            _ => HANDOVER,
        }
    }

    /// The master that a majority of all sentinels names. In haste, the connections to the others are given up.
    async fn agree(&self, wires: &mut [Option<Wire>], in_haste: bool) -> Result<Master, Arc<str>> {
        let askers = self.addresses.iter().zip(wires.iter_mut());
        let mut answers: FuturesUnordered<_> = askers.map(|of| self.ask(of)).collect();
        let mut ballot = Ballot::new(self.addresses.len());
        let mut named = None;
        while let Some((address, answer)) = answers.next().await {
            named = ballot.add(address, answer);
            if named.is_some() && in_haste {
                break;
            }
        }
        named.ok_or_else(|| ballot.failure(&self.name))
    }

    async fn ask<'a>(
        &self,
        (address, wire): (&'a ConnectionAddr, &mut Option<Wire>),
    ) -> (&'a ConnectionAddr, Result<Answer, Arc<str>>) {
        let known = wire.take();
        let asked = async {
            let mut wire = match known {
                Some(wire) => wire,
                None => connect(address, self.login.as_ref()).await?,
            };
            let answer = ask(&mut wire, &self.name).await?;
            Ok((wire, answer))
        };
        let answer = match timeout(PATIENCE, asked).await {
            Ok(Ok((used, answer))) => {
                *wire = Some(used);
                Ok(answer)
            }
            Ok(Err(reason)) => Err(reason),
            Err(_) => Err(format!("no answer within {PATIENCE:?}").into()),
        };
        (address, answer)
    }
}

async fn connect(address: &ConnectionAddr, login: Option<&Credentials>) -> Result<Wire, Arc<str>> {
    let stream = stream::plainly(address).await;
    let mut wire = Wire::new(stream.map_err(|error| reason(&error))?);
    sign_in::sign_in_plainly(&mut wire, login).await?;
    Ok(wire)
}

async fn ask(wire: &mut Wire, name: &str) -> Result<Answer, Arc<str>> {
    let questions = [
        words(["SENTINEL", "MASTER", name]),
        words(["INFO", "server"]),
    ];
    let mut replies = wire.exchange(&questions).await?.into_iter();
    let (master, info) = (replies.next(), replies.next());
    let sentinel = info.as_ref().and_then(info::run_id).flatten();
    let sentinel = sentinel.ok_or("it does not say which process it is (`INFO server`)")?;
    read(master, &sentinel)
}

/// What a sentinel says of a master: names and values in turn.
fn read(reply: Option<Value>, sentinel: &str) -> Result<Answer, Arc<str>> {
    let fields = match reply {
        Some(Value::ServerError(error)) => return Err(reason(&error)),
        Some(reply) => redis::from_redis_value::<Vec<String>>(reply).unwrap_or_default(),
        None => Vec::new(),
    };
    let field = |name: &str| {
        let mut pairs = fields.chunks_exact(2);
        pairs.find(|pair| pair[0] == name).map(|pair| &pair[1])
    };
    let number = |name| field(name).and_then(|value| value.parse::<u64>().ok());
    let answer = || {
        let port = u16::try_from(number("port")?).ok()?;
        let others = usize::try_from(number("num-other-sentinels")?).ok()?;
        Some(Answer {
            master: Master {
                address: ConnectionAddr::Tcp(field("ip")?.clone(), port),
                epoch: number("config-epoch")?,
            },
            sentinel: sentinel.to_owned(),
            sentinels: others.saturating_add(1),
        })
    };
    answer().ok_or_else(|| "the reply is not that of a sentinel".into())
}

/// What the sentinels have answered.
struct Ballot<'a> {
    sentinels: usize,
    votes: Vec<Answer>,
    said: Vec<(&'a ConnectionAddr, String)>,
}

impl<'a> Ballot<'a> {
    const fn new(named: usize) -> Self {
        Self {
            sentinels: named,
            votes: Vec::new(),
            said: Vec::new(),
        }
    }

    /// The master that a majority has named by now.
    fn add(
        &mut self,
        address: &'a ConnectionAddr,
        answer: Result<Answer, Arc<str>>,
    ) -> Option<Master> {
        match answer {
            Ok(vote) => {
                self.said.push((address, format!("names {}", vote.master)));
                self.sentinels = self.sentinels.max(vote.sentinels);
                let is_new = |known: &Answer| known.sentinel != vote.sentinel;
                if self.votes.iter().all(is_new) {
                    self.votes.push(vote);
                }
            }
            Err(reason) => self.said.push((address, format!("said: {reason}"))),
        }
        let majority = self.sentinels / 2 + 1;
        let masters = self.votes.iter().map(|vote| &vote.master);
        let has_majority = |master: &&Master| {
            let votes = self.votes.iter().filter(|vote| vote.master == **master);
            votes.count() >= majority
        };
        masters.clone().find(has_majority).cloned()
    }

    fn failure(&self, name: &str) -> Arc<str> {
        let count = self.sentinels;
        let said: Vec<String> = self
            .said
            .iter()
            .map(|(address, said)| format!("{} {said}", address_text(address)))
            .collect();
        let text = format!(
            "no majority of {count} sentinels names one master `{name}`: {}",
            said.join(", ")
        );
        text.into()
    }
}

/// Asks again and again whether this is still the master. Ends when it is not, or when that has not been
/// known for too long.
async fn watch(
    sentinels: Arc<Sentinels>,
    mut wires: Vec<Option<Wire>>,
    master: Master,
    trust: Arc<Trust>,
) {
    let mut failure: Arc<str> = "the sentinels were not asked".into();
    loop {
        tokio::time::sleep(PAUSE.min(trust.left())).await;
        let left = trust.left();
        if left.is_zero() {
            return trust.end(failure);
        }
        let asked = clock::now();
        match timeout(left, sentinels.agree(&mut wires, false)).await {
            Ok(Ok(named)) if named == master => trust.prolong(asked.after(TRUST)),
            Ok(Ok(other)) if other.address == master.address => {
                return trust.end("it was made the master once more".into());
            }
            Ok(Ok(other)) => {
                return trust.end(format!("the sentinels name {other} the master").into());
            }
            Ok(Err(reason)) => failure = reason,
            Err(_) => {}
        }
    }
}

/// The master that a connection leads to.
pub(super) struct InOffice {
    sentinels: Arc<Sentinels>,
    pub(super) master: Master,
}

impl InOffice {
    /// What stands behind the process where this server is named.
    pub(super) fn term(&self) -> Arc<str> {
        format!("@{}", self.master.epoch).into()
    }

    /// Takes in what the server tells of itself, and whom its marker names. Fails while others may still use
    /// the master before it.
    pub(super) fn check(&self, facts: Facts, marker: Option<&str>) -> Result<Facts, Arc<str>> {
        let Some(process) = facts.server else {
            return Err(
                "a master that sentinels name must tell which process it is: allow `INFO`".into(),
            );
        };
        let epoch = self.master.epoch;
        let term = marker.and_then(|marker| marker.split_once('@'));
        let is_taken_over = match (marker, term) {
            (_, Some((_, term))) => term == epoch.to_string(),
            (Some(_), None) => false,
            // Before the first failover there is no other master.
            (None, None) => epoch == 0,
        };
        let left = self.sentinels.handover(&self.master);
        if !is_taken_over && !left.is_zero() {
            return Err(format!(
                "the sentinels have made {} the master; it is used in {left:.1?}, when no process uses \
                 the one before any more",
                self.master
            )
            .into());
        }
        Ok(Facts {
            server: Some(format!("{process}{}", self.term()).into()),
            // A replica has run for long and does not have what its master granted last.
            uptime: facts.uptime.filter(|_| epoch == 0),
            is_durable: false,
            ..facts
        })
    }
}
