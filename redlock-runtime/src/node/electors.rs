//! A master that other servers name, as one node: a master that Redis Sentinel manages, or the server that owns
//! a slot of a Redis Cluster.
//!
//! A node is one vote, and after a failover there are two servers that may both grant: the old master may be
//! cut off from those who name masters, the *electors*, and still be reached by some clients. Two rules keep
//! the node one vote, whatever the network does:
//!
//! 1. *Leave in time.* A client uses a master only while a majority of all electors has named it within the
//!    last [`TRUST`], counted from before they were asked. Each request is checked against that before it is
//!    written.
//! 2. *Come late.* A client that finds a master that has not been admitted in its term of office connects to it
//!    no sooner than [`HANDOVER`] after a majority named it. From then on it is a node that has lost its memory,
//!    because replication may have left out the last locks: the quarantine begins, as after a restart.
//!
//! Why that is enough, if no elector goes back to an earlier term: say that a majority has named the new master to
//! client B at a moment t. Each later answer to client A by a majority includes an elector that had answered B, so
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
//! [`sentinel`](super::sentinel) and [`cluster`](super::cluster) say why electors of each kind do
//! not go back, and what is beyond that. All electors that are known to one count, named in the URL or not.

use std::{
    sync::{Arc, PoisonError},
    time::Duration,
};

use futures_util::{StreamExt, stream::FuturesUnordered};
use redis::ConnectionAddr;
use redlock_protocol::{Facts, Why, WhyKind};
use tokio::time::timeout;

use super::{
    ballot::{Answer, Ballot},
    cluster,
    endpoint::Endpoint,
    guarded::{Trust, Watch},
    login::{AbortOnDrop, Login},
    office::{Electors, Master, Office},
    sentinel, sign_in, stream,
    wire::Wire,
};
use crate::clock;

/// For so long the word of the electors is relied on.
const TRUST: Duration = Duration::from_secs(5);

/// So long after it was named a new master is not used: all others have left the old one by then, by clocks
/// that differ by less than a tenth.
const HANDOVER: Duration = Duration::from_millis(5_500);

/// How often the electors are asked while a master is used.
const PAUSE: Duration = Duration::from_secs(1);

/// An elector that takes longer has not answered.
const PATIENCE: Duration = Duration::from_millis(500);

/// For so long others that the URL names are waited for once a majority has been found: they may be of another
/// cluster.
const GRACE: Duration = Duration::from_millis(50);

/// Where an elector is asked.
struct Door {
    address: ConnectionAddr,
    wire: Option<Wire>,
    /// Who has answered there.
    elector: Option<String>,
    /// It is in the URL.
    is_seed: bool,
}

impl Electors {
    /// The master that a majority names, and what watches that it goes on doing so.
    pub(super) async fn find(
        self: &Arc<Self>,
        endpoint: &Endpoint,
    ) -> Result<(InOffice, Watch), Why> {
        let asked = clock::now();
        let mut doors: Vec<_> = self.seeds.iter().map(Door::seed).collect();
        let least = match self.office {
            Office::Master(_) => self.seeds.len(),
            // One of them that has another name is listed once more.
            Office::Slot(_) => 1,
        };
        let (master, count) = self.agree(&mut doors, endpoint, (least, true)).await?;
        let now = clock::now();
        let mut named = self.named.lock().unwrap_or_else(PoisonError::into_inner);
        let is_known = named.as_ref().is_some_and(|(known, _)| *known == master);
        if !is_known {
            *named = Some((master.clone(), now));
        }
        drop(named);
        let trust = Arc::new(Trust::until(asked.after(TRUST)));
        let watching = watch(
            (Arc::clone(self), endpoint.clone()),
            (doors, count),
            master.clone(),
            Arc::clone(&trust),
        );
        let electors = Arc::clone(self);
        let office = InOffice { electors, master };
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

    /// The master that a majority of all electors names, and how many there are, at least so many. In haste, the
    /// connections to others than the URL names are given up.
    async fn agree(
        &self,
        doors: &mut Vec<Door>,
        endpoint: &Endpoint,
        (least, in_haste): (usize, bool),
    ) -> Result<(Master, usize), Why> {
        let mut known: Vec<_> = doors.iter().map(|door| door.address.clone()).collect();
        let mut ballot = Ballot::new(&self.office, least);
        let asking = doors.drain(..).map(|door| self.ask(door, endpoint));
        let mut answers: FuturesUnordered<_> = asking.collect();
        let mut named = None;
        loop {
            let next = match in_haste && named.is_some() {
                false => answers.next().await,
                true if self.has_heard_seeds(doors) => break,
                true => timeout(GRACE, answers.next()).await.unwrap_or_default(),
            };
            let Some((door, answer)) = next else { break };
            if let Ok(answer) = &answer {
                for address in &answer.others {
                    if !known.contains(address) {
                        known.push(address.clone());
                        answers.push(self.ask(Door::to(address), endpoint));
                    }
                }
            }
            named = ballot.add(&door.address, answer);
            doors.push(door);
        }
        drop(answers);
        self.keep(doors, &ballot);
        let count = ballot.electors();
        named
            .map(|master| (master, count))
            .ok_or_else(|| ballot.failure())
    }

    /// Whether all that the URL names have answered or cannot. Sentinels that it names count in any case.
    fn has_heard_seeds(&self, doors: &[Door]) -> bool {
        let heard = doors.iter().filter(|door| door.is_seed).count();
        matches!(self.office, Office::Master(_)) || heard == self.seeds.len()
    }

    /// What is to be asked next time: what the URL names, and others that have answered and that it does not
    /// name in other words.
    fn keep(&self, doors: &mut Vec<Door>, ballot: &Ballot<'_>) {
        let named: Vec<_> = doors
            .iter()
            .filter(|door| door.is_seed)
            .filter_map(|door| door.elector.clone())
            .collect();
        doors.retain(|door| {
            let is_new = |elector| !named.contains(elector);
            door.is_seed || ballot.is_listed(&door.address) && door.elector.iter().all(is_new)
        });
        for seed in &self.seeds {
            if doors.iter().all(|door| door.address != *seed) {
                doors.push(Door::seed(seed));
            }
        }
    }

    async fn ask(&self, mut door: Door, endpoint: &Endpoint) -> (Door, Result<Answer, Why>) {
        let wire = door.wire.take();
        let address = &door.address;
        let asked = async {
            let mut wire = match wire {
                Some(wire) => wire,
                None => self.connect(address, endpoint).await?,
            };
            let answer = match &self.office {
                Office::Master(name) => sentinel::ask(&mut wire, name).await?,
                Office::Slot(slot) => cluster::ask(&mut wire, *slot, address, endpoint).await?,
            };
            Ok((wire, answer))
        };
        let answer = match timeout(PATIENCE, asked).await {
            Ok(Ok((used, answer))) => {
                door.wire = Some(used);
                door.elector = Some(answer.elector.clone());
                Ok(answer)
            }
            Ok(Err(reason)) => Err(reason),
            Err(_) => Err(format!("no answer within {PATIENCE:?}").into()),
        };
        (door, answer)
    }

    async fn connect(&self, address: &ConnectionAddr, endpoint: &Endpoint) -> Result<Wire, Why> {
        let stream = stream::to(endpoint, address).await;
        let mut wire = Wire::new(stream?);
        let login = match self.office {
            Office::Master(_) => Login::Fixed(self.login.clone()),
            Office::Slot(_) => endpoint.login.clone(),
        };
        let credentials = login.credentials(address).await?;
        sign_in::sign_in(&mut wire, credentials.as_ref()).await?;
        Ok(wire)
    }
}

/// Asks again and again whether this is still the master. Ends when it is not, or when that has not been
/// known for too long. Meanwhile the electors do not become fewer: one that has forgotten the others must not
/// be the majority.
async fn watch(
    (electors, endpoint): (Arc<Electors>, Endpoint),
    (mut doors, mut count): (Vec<Door>, usize),
    master: Master,
    trust: Arc<Trust>,
) {
    let they = electors.office.electors();
    let mut failure: Why = format!("the {they} were not asked").into();
    loop {
        tokio::time::sleep(PAUSE.min(trust.left())).await;
        let left = trust.left();
        if left.is_zero() {
            return trust.end(failure.text);
        }
        let asked = clock::now();
        let agreed = electors.agree(&mut doors, &endpoint, (count, false));
        match timeout(left, agreed).await {
            Ok(Ok((named, of))) if named == master => {
                count = of;
                trust.prolong(asked.after(TRUST));
            }
            Ok(Ok((other, _))) if other.name == master.name => {
                return trust.end("it was made the master once more".into());
            }
            Ok(Ok((other, _))) => {
                return trust.end(format!("the {they} name {other} the master").into());
            }
            Ok(Err(reason)) => failure = reason,
            Err(_) => {}
        }
    }
}

/// The master that a connection leads to.
pub(super) struct InOffice {
    electors: Arc<Electors>,
    pub(super) master: Master,
}

impl InOffice {
    /// What stands behind the process where this server is named.
    pub(super) fn term(&self) -> Arc<str> {
        format!("@{}", self.bare_term()).into()
    }

    /// Two servers of a cluster may have one epoch for a while.
    fn bare_term(&self) -> String {
        let Master { epoch, name, .. } = &self.master;
        match self.electors.office {
            Office::Master(_) => epoch.to_string(),
            Office::Slot(_) => format!("{epoch}:{name}"),
        }
    }

    /// The owner of a slot must say itself that it still is: another server may have got its address, or it may
    /// have lost the slot since.
    pub(super) async fn confirm(&self, wire: &mut Wire, endpoint: &Endpoint) -> Result<(), Why> {
        let Office::Slot(slot) = self.electors.office else {
            return Ok(());
        };
        let Master { address, name, .. } = &self.master;
        let said = cluster::ask(wire, slot, address, endpoint).await?;
        if said.elector == *name && said.master == self.master {
            return Ok(());
        }
        let office = &self.electors.office;
        Err(format!("{} is not the {office} any more", self.master).into())
    }

    /// Takes in what the server tells of itself, and whom its marker names. Fails while others may still use
    /// the master before it.
    pub(super) fn check(&self, facts: Facts, marker: Option<&str>) -> Result<Facts, Why> {
        let they = self.electors.office.electors();
        let Some(process) = facts.server else {
            let text =
                format!("a master that {they} name must tell which process it is: allow `INFO`");
            return Err(text.into());
        };
        // Before the first failover there is no other master. In a cluster slots move without one.
        let is_first = matches!(self.electors.office, Office::Master(_)) && self.master.epoch == 0;
        let term = marker.and_then(|marker| marker.split_once('@'));
        let is_taken_over = match (marker, term) {
            (_, Some((_, term))) => term == self.bare_term(),
            (Some(_), None) => false,
            (None, None) => is_first,
        };
        let left = self.electors.handover(&self.master);
        if !is_taken_over && !left.is_zero() {
            let text = format!(
                "the {they} have made {} the master; it is used in {left:.1?}, when no process uses the one \
                 before any more",
                self.master
            );
            return Err(Why::new(WhyKind::HandingOver, text));
        }
        Ok(Facts {
            server: Some(format!("{process}{}", self.term()).into()),
            // A replica has run for long and does not have what its master granted last.
            uptime: facts.uptime.filter(|_| is_first),
            is_durable: false,
            ..facts
        })
    }
}

impl Door {
    fn seed(address: &ConnectionAddr) -> Self {
        Self {
            is_seed: true,
            ..Self::to(address)
        }
    }

    fn to(address: &ConnectionAddr) -> Self {
        Self {
            address: address.clone(),
            wire: None,
            elector: None,
            is_seed: false,
        }
    }
}
