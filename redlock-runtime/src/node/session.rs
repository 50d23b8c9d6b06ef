//! The life of one connection: requests out in their order, replies in.
//!
//! Requests of one kind that follow each other between two polls go out as one command. That changes
//! neither their order nor what any of them means: what a server says of the command as a whole says
//! nothing of a single request, so each is then asked by itself.

use std::{
    collections::VecDeque,
    mem::{self, Discriminant},
    task::{Context, Poll},
};

use redis::Value;
use redlock_protocol::{Act, Event, NodeId, Reply, Request, RequestId, Why};
use tokio::task::coop::has_budget_remaining;

use super::{
    connection,
    reply::{self, NO_SCRIPT},
    wire::Wire,
};
use crate::script::{self, Kind};

/// So many values of one server are read, or replies in them, before it is the turn of the others and of
/// callers: the runtime lets one poll read only so much from all sockets together, and a server may write
/// without end.
pub(super) const MOST_AT_ONCE: usize = 1_024;

/// Once a server owes this number of replies, requests of callers wait for each other and go out together:
/// a write costs more than what is in it.
const BUSY: usize = 8;

/// More in one command save next to nothing, and a server does nothing else in the meantime.
const MOST_TOGETHER: usize = 32;

pub(super) struct Session {
    wire: Wire,
    node: NodeId,
    /// The name of what the library keeps there beside the locks.
    hash: String,
    /// Of one kind, and to be written before anything else is.
    together: Vec<Asked>,
    /// What the next replies are for, in their order.
    owed: VecDeque<Owed>,
    /// The scripts that the server did not know when it was asked last. The next command of that kind
    /// brings the text, and from then on the server knows it.
    unknown: Vec<Script>,
    /// The next session has to know it.
    pub(super) refused: Refused,
}

/// Commands for several requests that are not to be used: the server has refused one, because it may not
/// be used at all, or for one of the requests; or the replies to several are too large together.
pub(super) type Refused = Vec<Discriminant<Kind>>;

type Asked = (RequestId, Request);

/// Requests that are carried out by one script.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Script {
    Of(Discriminant<Request>),
    OfVote(Discriminant<Act>),
    ForMany(Discriminant<Kind>),
}

impl Script {
    const fn of(request: &Request) -> Self {
        match request {
            Request::Vote(_, act) => Self::OfVote(mem::discriminant(act)),
            other => Self::Of(mem::discriminant(other)),
        }
    }
}

/// What a reply is for.
enum Owed {
    /// The command only went before another.
    Nothing,
    One(Asked),
    Many(Kind, Vec<Asked>),
}

impl Session {
    /// `refused` is what the session before has left.
    pub(super) fn new(wire: Wire, node: NodeId, hash: String, refused: Refused) -> Self {
        Self {
            wire,
            node,
            hash,
            together: Vec::new(),
            owed: VecDeque::new(),
            unknown: Vec::new(),
            refused,
        }
    }

    /// Says what the connection is called: nothing depends on it, so a server may refuse it.
    pub(super) fn introduce(&mut self, name: &str) {
        self.wire.put(&script::words(["CLIENT", "SETNAME", name]));
        self.owed.push_back(Owed::Nothing);
    }

    /// It has so much to answer that what is asked now can wait for more.
    pub(super) fn is_busy(&self) -> bool {
        let count = |owed: &Owed| match owed {
            Owed::Nothing | Owed::One(_) => 1,
            Owed::Many(_, asked) => asked.len(),
        };
        self.owed.iter().take(BUSY).map(count).sum::<usize>() >= BUSY
    }

    /// Takes a request on. It is written with the next poll.
    pub(super) fn send(&mut self, request: RequestId, body: Request) {
        let kind =
            script::kind(&body).filter(|kind| !self.refused.contains(&mem::discriminant(kind)));
        let first = self.together.first();
        if first.is_some_and(|(_, first)| script::kind(first) != kind)
            || self.together.len() == MOST_TOGETHER
        {
            self.write_together();
        }
        match kind {
            Some(_) => {
                self.together
                    .reserve(1 + MOST_TOGETHER - self.together.len());
                self.together.push((request, body));
            }
            None => self.write((request, body)),
        }
    }

    fn write_together(&mut self) {
        let first = self.together.first();
        let kind = first.and_then(|(_, first)| script::kind(first));
        match kind {
            Some(kind) if self.together.len() > 1 => {
                let asked = mem::take(&mut self.together);
                self.write_many(kind, asked);
            }
            _ => {
                if let Some(asked) = self.together.pop() {
                    self.write(asked);
                }
            }
        }
    }

    fn write(&mut self, (request, body): Asked) {
        let with_source = self.is_to_bring(Script::of(&body));
        self.write_preface(&body);
        let command = script::command(&body, &self.hash, with_source);
        self.wire.put(&command);
        self.owed.push_back(Owed::One((request, body)));
    }

    fn write_many(&mut self, kind: Kind, asked: Vec<Asked>) {
        let with_source = self.is_to_bring(Script::ForMany(mem::discriminant(&kind)));
        if let Some((_, first)) = asked.first() {
            self.write_preface(first);
        }
        let requests = asked.iter().map(|(_, body)| body);
        let command = script::command_for_many(kind, requests, &self.hash, with_source);
        self.wire.put(&command);
        self.owed.push_back(Owed::Many(kind, asked));
    }

    fn write_preface(&mut self, body: &Request) {
        for preface in script::preface(body) {
            self.wire.put(&preface);
            self.owed.push_back(Owed::Nothing);
        }
    }

    /// The next command of this kind must have the text of its script with it.
    fn is_to_bring(&mut self, script: Script) -> bool {
        let place = self.unknown.iter().position(|&unknown| unknown == script);
        place.map(|place| self.unknown.swap_remove(place)).is_some()
    }

    /// Takes in the answer to a request. If the server did not know the script, a vote is left to the
    /// protocol, which first asks who the server is, and may not want it any more. Anything else is sent
    /// again: a release does no harm whenever it comes, and what is read later is no older for that.
    fn on_answer(
        &mut self,
        (request, body): Asked,
        answer: Value,
        tell: impl FnOnce(RequestId, Reply),
    ) {
        if reply::lacks_script(&answer) {
            self.unknown.push(Script::of(&body));
            if !matches!(body, Request::Vote(..)) {
                return self.write((request, body));
            }
        }
        let reply = match reply::parse(&body, answer) {
            Reply::Identity {
                server: Some(process),
            } => Reply::Identity {
                server: Some(format!("{process}{}", self.wire.term).into()),
            },
            reply => reply,
        };
        tell(request, reply);
    }

    /// Takes in the answer to several requests.
    fn on_answers(
        &mut self,
        kind: Kind,
        asked: Vec<Asked>,
        answer: Value,
        mut tell: impl FnMut(RequestId, Reply),
    ) {
        match answer {
            Value::Array(answers) if answers.len() == asked.len() => {
                for ((request, body), answer) in asked.into_iter().zip(answers) {
                    // See `Kind::Watch`.
                    if kind == Kind::Watch && answer == Value::Nil {
                        self.write((request, body));
                    } else {
                        tell(request, reply::parse(&body, answer));
                    }
                }
            }
            Value::ServerError(error) if error.code() != NO_SCRIPT => {
                // Whichever of them it was for, if it was not for the command itself. Extensions do no harm
                // either if they come late: their round does not count them any more.
                self.refused.push(mem::discriminant(&kind));
                asked.into_iter().for_each(|asked| self.write(asked));
            }
            answer => {
                let reply = match answer {
                    Value::ServerError(_) => {
                        // All of these are votes.
                        self.unknown.push(Script::ForMany(mem::discriminant(&kind)));
                        Reply::NotAdmitted
                    }
                    // The admission is that of all.
                    Value::Int(-1) if matches!(kind, Kind::Extend(_)) => Reply::NotAdmitted,
                    answer => reply::garbled(&answer),
                };
                for (request, _) in asked {
                    tell(request, reply.clone());
                }
            }
        }
    }

    /// True if replies may have come that were not read. Fails with a reason when the connection has
    /// broken.
    pub(super) fn poll(
        &mut self,
        cx: &mut Context<'_>,
        events: &mut Vec<Event>,
    ) -> Result<bool, Why> {
        self.write_together();
        let (node, written) = (self.node, self.wire.poll_write(cx));
        let most = events.len() + MOST_AT_ONCE;
        let mut has_replied = false;
        for _ in 0..MOST_AT_ONCE {
            if events.len() >= most {
                break;
            }
            let Poll::Ready(value) = self.wire.poll_value(cx) else {
                // What the server said before the connection broke has been read.
                return written.map(|()| !has_budget_remaining());
            };
            let value = value.inspect_err(|_| {
                if let Some(Owed::Many(kind, _)) = self.owed.front()
                    && self.wire.has_met_too_large
                {
                    self.refused.push(mem::discriminant(kind));
                }
            })?;
            let tell = |request, reply| {
                events.push(Event::Reply {
                    node,
                    request,
                    reply,
                });
            };
            match value {
                Value::Push { kind, data } => {
                    let keys = connection::changed_keys(&kind, data, &self.wire.tag);
                    if !self.wire.term.is_empty() && keys.contains(&None) {
                        // Maybe as a replica: see `discovery`.
                        return Err("all its keys were deleted".into());
                    }
                    let keys = keys.into_iter();
                    events.extend(keys.map(|key| Event::Changed { node, key }));
                }
                answer => {
                    has_replied = true;
                    let owed = self.owed.pop_front();
                    let others = self.owed.len();
                    match owed {
                        Some(Owed::One(asked)) => self.on_answer(asked, answer, tell),
                        Some(Owed::Many(kind, asked)) => {
                            self.on_answers(kind, asked, answer, tell);
                        }
                        Some(Owed::Nothing) => {}
                        None => return Err(connection::unasked(&answer)),
                    }
                    if self.owed.len() > others {
                        // What is sent again is written in the next step.
                        cx.waker().wake_by_ref();
                    }
                }
            }
        }
        cx.waker().wake_by_ref();
        // A server that says this much by itself is not waited for.
        Ok(has_replied)
    }
}
