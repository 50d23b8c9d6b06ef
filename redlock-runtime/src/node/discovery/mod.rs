//! A master that other servers name, as one node: a master that Redis Sentinel manages, or the server that owns
//! a slot of a Redis Cluster.
//!
//! A node is one vote, and after a failover there are two servers that may both grant: the old master may be
//! cut off from those who name masters, the *sources*, and still be reached by some clients. Two rules keep
//! the node one vote, whatever the network does:
//!
//! 1. *Leave in time.* A client uses a master only while a majority of all sources has named it within the
//!    last [`TRUST`], counted from before they were asked. Each request is checked against that before it is
//!    written.
//! 2. *Come late.* A client that finds a master that has not been admitted in its term of office connects to it
//!    no sooner than [`HANDOVER`] after a majority named it. From then on it is a node that has lost its memory,
//!    because replication may have left out the last locks: the quarantine begins, as after a restart.
//!
//! Why that is enough, if no source goes back to an earlier term: say that a majority has named the new master to
//! client B at a moment t. Each later answer to client A by a majority includes a source that had answered B, so
//! it does not name the old one. So A was last told of the old master by answers to a question from before t, and
//! sends it nothing after t + `TRUST`. The new master's loss is noted after t + `HANDOVER`, which is more, also if
//! clocks differ by some percent. What the old master has granted is therefore older than the loss, apart
//! from requests on their way, for which every quarantine allows: it lasts until all of that has expired.
//!
//! A term of office is a server and the epoch that it was chosen with. It is named in the node's marker beside
//! the process: a master that becomes a replica and then a master again has the same process and has forgotten what it
//! had granted. That can take less than `TRUST`, and its data, which are another server's now, may name its
//! earlier term. So nobody may rely on a connection over which the server has said that all its keys were deleted,
//! as it does before it takes over the data of another one. If it does not, it has forgotten nothing.
//!
//! `sentinel` and `cluster` say why sources of each kind do
//! not go back, and what is beyond that. All sources that are known to one count, named in the URL or not.

mod cluster;
mod sentinel;
pub(super) mod source;

use std::{
    sync::{Arc, PoisonError},
    task::Poll,
    time::Duration,
};

use futures_util::{StreamExt, stream::FuturesUnordered};
use redis::ConnectionAddr;
use redlock_protocol::{Facts, Instant, Why, WhyKind};
use tokio::{sync::watch, task::JoinSet, time::timeout};

use self::source::Answer;
pub(crate) use self::{
    cluster::slot_of,
    source::{Discovery, Master, Source},
};
use super::{
    endpoint::Endpoint,
    reason::reason,
    sign_in::sign_in,
    sockets::Seat,
    stream,
    wire::{Guard, Wire},
};
use crate::clock;

/// For so long the word of the sources is relied on.
const TRUST: Duration = Duration::from_secs(5);

/// So long after it was named a new master is not used: all others have left the old one by then, by clocks
/// that differ by less than a tenth.
const HANDOVER: Duration = Duration::from_millis(5_500);

/// How often the sources are asked while a master is used.
const PAUSE: Duration = Duration::from_secs(1);

/// A source that takes longer has not answered.
const PATIENCE: Duration = Duration::from_millis(500);

/// For so long others that the URL names are waited for once a majority has been found: they may be of another
/// cluster.
const GRACE: Duration = Duration::from_millis(50);

/// One source, and the connection to it.
struct Peer {
    address: ConnectionAddr,
    wire: Option<Wire>,
}

/// The sources that are asked, and how many there are at least.
struct Peers {
    all: Vec<Peer>,
    least: usize,
}

impl Discovery {
    /// Connects to the master that a majority names, and signs in. The connection ends when none does so any more.
    pub(super) async fn connect(
        self: &Arc<Self>,
        endpoint: &Endpoint,
        seat: Option<&Seat>,
    ) -> Result<(Wire, Master), Why> {
        let asked = clock::now();
        let mut peers = Peers {
            all: Vec::new(),
            least: match self.source {
                Source::Sentinels { .. } => self.seeds.len(),
                // One of them that has another name is listed once more.
                Source::Cluster { .. } => 1,
            },
        };
        let master = self.agree(&mut peers, endpoint, true).await?;
        self.note(&master);
        let (trusted, until) = watch::channel(asked.after(TRUST));
        let watch = Arc::clone(self).watch(endpoint.clone(), peers, master.clone(), trusted);
        // Aborted with the connection.
        let mut watching = JoinSet::new();
        watching.spawn(watch);
        let stream = stream::to(endpoint, &master.address, seat).await;
        let stream = stream.map_err(|why| Why {
            text: reason(&format_args!("{master}: {why}")),
            ..why
        })?;
        let mut wire = sign_in(stream, &master.address, &endpoint.login).await?;
        wire.guard = Some(guard(until, watching));
        Ok((wire, master))
    }

    fn note(&self, master: &Master) {
        let mut named = self.named.lock().unwrap_or_else(PoisonError::into_inner);
        if named.as_ref().is_none_or(|(known, _)| known != master) {
            *named = Some((master.clone(), clock::now()));
        }
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

    /// Asks again and again whether this is still the master. Ends when it is not, or when that has not been
    /// known for too long, and says why. Meanwhile the sources do not become fewer: one that has forgotten the
    /// others must not be the majority.
    async fn watch(
        self: Arc<Self>,
        endpoint: Endpoint,
        mut peers: Peers,
        master: Master,
        until: watch::Sender<Instant>,
    ) -> Arc<str> {
        let they = self.source.all();
        let mut failure: Why = format!("the {they} were not asked").into();
        loop {
            let left = || until.borrow().since(clock::now());
            tokio::time::sleep(PAUSE.min(left())).await;
            let left = left();
            if left.is_zero() {
                return failure.text;
            }
            let asked = clock::now();
            match timeout(left, self.agree(&mut peers, &endpoint, false)).await {
                Ok(Ok(named)) if named == master => drop(until.send(asked.after(TRUST))),
                Ok(Ok(other)) if other.name == master.name => {
                    return "it was made the master once more".into();
                }
                Ok(Ok(other)) => return format!("the {they} name {other} the master").into(),
                Ok(Err(reason)) => failure = reason,
                Err(_) => {}
            }
        }
    }

    /// The master that a majority of all sources names. In haste, others are not waited for once it has, and the
    /// connections to them are given up.
    async fn agree(
        &self,
        peers: &mut Peers,
        endpoint: &Endpoint,
        in_haste: bool,
    ) -> Result<Master, Why> {
        let mut known: Vec<_> = peers.all.iter().map(|it| it.address.clone()).collect();
        let asking = peers.all.drain(..).map(|peer| self.ask(peer, endpoint));
        let mut answering: FuturesUnordered<_> = asking.collect();
        let mut listed = self.seeds.clone();
        let mut said = Vec::new();
        loop {
            for address in &listed {
                if !known.contains(address) {
                    known.push(address.clone());
                    let (address, wire) = (address.clone(), None);
                    answering.push(self.ask(Peer { address, wire }, endpoint));
                }
            }
            let (named, _) = self.source.majority(&said, peers.least);
            let is_heard = |seed| said.iter().any(|(address, _)| address == seed);
            let next = match in_haste && named.is_some() {
                false => answering.next().await,
                true if self.seeds.iter().all(is_heard) => break,
                true => timeout(GRACE, answering.next()).await.unwrap_or_default(),
            };
            let Some((peer, answer)) = next else { break };
            if let Ok(answer) = &answer {
                listed.extend(answer.others.iter().cloned());
            }
            said.push((peer.address.clone(), answer));
            peers.all.push(peer);
        }
        drop(answering);
        peers.all.retain(|peer| listed.contains(&peer.address));
        match self.source.majority(&said, peers.least) {
            (Some(master), count) => {
                peers.least = count;
                Ok(master.clone())
            }
            (None, count) => Err(self.source.failure(&said, count)),
        }
    }

    async fn ask(&self, mut peer: Peer, endpoint: &Endpoint) -> (Peer, Result<Answer, Why>) {
        let wire = peer.wire.take();
        let asked = async {
            let mut wire = match wire {
                Some(wire) => wire,
                None => self.reach(&peer.address, endpoint).await?,
            };
            let answer = match &self.source {
                Source::Sentinels { master, .. } => sentinel::ask(&mut wire, master).await?,
                Source::Cluster { slot } => {
                    cluster::ask(&mut wire, *slot, &peer.address, endpoint.has_tls()).await?
                }
            };
            Ok((wire, answer))
        };
        let answer = match timeout(PATIENCE, asked).await {
            Ok(Ok((used, answer))) => {
                peer.wire = Some(used);
                Ok(answer)
            }
            Ok(Err(reason)) => Err(reason),
            Err(_) => Err(format!("no answer within {PATIENCE:?}").into()),
        };
        (peer, answer)
    }

    async fn reach(&self, address: &ConnectionAddr, endpoint: &Endpoint) -> Result<Wire, Why> {
        let login = match &self.source {
            Source::Sentinels { login, .. } => login,
            Source::Cluster { .. } => &endpoint.login,
        };
        sign_in(stream::to(endpoint, address, None).await?, address, login).await
    }

    /// The owner of a slot must say itself that it still is: another server may have got its address, or it may
    /// have lost the slot since.
    pub(super) async fn confirm(
        &self,
        wire: &mut Wire,
        master: &Master,
        endpoint: &Endpoint,
    ) -> Result<(), Why> {
        let Source::Cluster { slot } = self.source else {
            return Ok(());
        };
        let said = cluster::ask(wire, slot, &master.address, endpoint.has_tls()).await?;
        if said.by == master.name && said.master == *master {
            return Ok(());
        }
        Err(format!("{master} is not the {} any more", self.source).into())
    }

    /// Takes in what the master tells of itself, and whom its marker names. Fails while others may still use
    /// the master before it.
    pub(super) fn check(
        &self,
        master: &Master,
        facts: Facts,
        marker: Option<&str>,
    ) -> Result<Facts, Why> {
        let they = self.source.all();
        let Some(process) = facts.server else {
            let text =
                format!("a master that {they} name must tell which process it is: allow `INFO`");
            return Err(text.into());
        };
        // Before the first failover there is no other master. In a cluster slots move without one.
        let is_first = matches!(self.source, Source::Sentinels { .. }) && master.epoch == 0;
        let term = self.source.term(master);
        let is_taken_over = match marker {
            None => is_first,
            Some(marker) => marker.ends_with(&term),
        };
        let left = self.handover(master);
        if !is_taken_over && !left.is_zero() {
            let text = format!(
                "the {they} have made {master} the master; it is used in {left:.1?}, when no process uses the \
                 one before any more"
            );
            return Err(Why::new(WhyKind::HandingOver, text));
        }
        Ok(Facts {
            server: Some(format!("{process}{term}").into()),
            // A replica has run for long and does not have what its master granted last.
            uptime: facts.uptime.filter(|_| is_first),
            is_durable: false,
            ..facts
        })
    }
}

/// Fails once nothing says any more that it is the master: its `watching` has ended, or the time `until` which that has
/// trusted it.
fn guard(until: watch::Receiver<Instant>, mut watching: JoinSet<Arc<str>>) -> Guard {
    let mut end: Option<Arc<str>> = None;
    Box::new(move |cx| {
        if end.is_none()
            && let Poll::Ready(ended) = watching.poll_join_next(cx)
        {
            let ended = ended.and_then(Result::ok);
            end = Some(ended.unwrap_or_else(|| "the runtime has ended".into()));
        }
        match &end {
            Some(reason) => Err(Arc::clone(reason).into()),
            None if clock::now() < *until.borrow() => Ok(()),
            None => Err("no majority says any more that it is the master".into()),
        }
    })
}
