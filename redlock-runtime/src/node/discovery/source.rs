//! Who says which server is the node, and what a majority of them says.

use std::{collections::BTreeSet, fmt, sync::Mutex};

use redis::ConnectionAddr;
use redlock_protocol::{Instant, Why, WhyKind};

use super::super::{address::address_text, login::Login};

/// How it is found out which server is the node: see [`discovery`](super).
#[derive(Debug)]
pub(crate) struct Discovery {
    pub(crate) source: Source,
    /// Where some of those are who are asked, if not all.
    pub(crate) seeds: Vec<ConnectionAddr>,
    /// The master that a majority named last, and since when.
    pub(super) named: Mutex<Option<(Master, Instant)>>,
}

/// Who names it.
#[derive(Debug)]
pub(crate) enum Source {
    /// Sentinels, which know it by this name, and have a login of their own.
    Sentinels { master: String, login: Login },
    /// The servers of a cluster: it is the owner of this slot.
    Cluster { slot: u16 },
}

/// A server since it became the master.
#[derive(Clone, Debug)]
pub(crate) struct Master {
    /// Where it is. One server can have several addresses.
    pub(crate) address: ConnectionAddr,
    /// What it is known by: its address to Sentinels, its id in a cluster.
    pub(super) name: String,
    /// With which it became the master.
    pub(super) epoch: u64,
}

/// What one of those says who are asked.
pub(super) struct Answer {
    pub(super) master: Master,
    /// Who says so: two addresses may lead to one.
    pub(super) by: String,
    /// How many it knows, itself included.
    pub(super) count: usize,
    /// Who they are, if it says so.
    pub(super) known: Vec<String>,
    /// Where the others are, if it says so.
    pub(super) others: Vec<ConnectionAddr>,
}

/// What was said at an address.
pub(super) type Said = (ConnectionAddr, Result<Answer, Why>);

impl Discovery {
    pub(crate) const fn new(source: Source, seeds: Vec<ConnectionAddr>) -> Self {
        Self {
            source,
            seeds,
            named: Mutex::new(None),
        }
    }
}

impl Source {
    /// The master that a majority of the given number names, and how many there are in all, at least that number.
    pub(super) fn majority<'a>(
        &self,
        said: &'a [Said],
        least: usize,
    ) -> (Option<&'a Master>, usize) {
        let answers: Vec<&Answer> = said.iter().flat_map(|(_, answer)| answer).collect();
        // By all together: servers of different clusters are no majority of both.
        let known: BTreeSet<&String> = answers.iter().flat_map(|it| &it.known).collect();
        let counts = answers.iter().map(|it| it.count);
        let count = counts.fold(least.max(known.len()), usize::max);
        let is_named = |master: &&Master| {
            let its = answers.iter().filter(|it| it.master == **master);
            let by: BTreeSet<&String> = its.map(|it| &it.by).collect();
            let is_sound = match self {
                Self::Sentinels { .. } => true,
                // See there why it must name itself, and nobody a later one.
                Self::Cluster { .. } => {
                    let is_later = |it: &&Answer| it.master.epoch > master.epoch;
                    by.contains(&master.name) && !answers.iter().any(is_later)
                }
            };
            by.len() > count / 2 && is_sound
        };
        let named = answers.iter().map(|it| &it.master).find(is_named);
        (named, count)
    }

    /// Why no majority of `count` names one. It is of the kind of the first failure that there is advice for.
    pub(super) fn failure(&self, said: &[Said], count: usize) -> Why {
        let mut kind = WhyKind::Other;
        let mut texts = Vec::new();
        for (address, answer) in said {
            let address = address_text(address);
            match answer {
                Ok(Answer { master, .. }) => texts.push(format!("{address} names {master}")),
                Err(why) => {
                    texts.push(format!("{address} said: {why}"));
                    if kind == WhyKind::Other {
                        kind = why.kind;
                    }
                }
            }
        }
        let texts = texts.join(", ");
        let text = match (count, self) {
            (1, Self::Sentinels { .. }) => format!("the only known sentinel names no {self}"),
            (1, _) => format!("the only known server of the cluster names no {self}"),
            _ => format!("no majority of {count} {} names one {self}", self.all()),
        };
        Why::new(kind, format!("{text}: {texts}"))
    }

    /// What those are called who are asked.
    pub(super) const fn all(&self) -> &'static str {
        match self {
            Self::Sentinels { .. } => "sentinels",
            Self::Cluster { .. } => "servers of the cluster",
        }
    }

    /// What stands behind the process where this master is named. Two servers of a cluster may have one
    /// epoch for a while.
    pub(crate) fn term(&self, master: &Master) -> String {
        let Master { epoch, name, .. } = master;
        match self {
            Self::Sentinels { .. } => format!("@{epoch}"),
            Self::Cluster { .. } => format!("@{epoch}:{name}"),
        }
    }
}

/// What is asked for.
impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sentinels { master, .. } => write!(f, "master `{master}`"),
            Self::Cluster { slot } => write!(f, "owner of slot {slot}"),
        }
    }
}

/// Whether both are one server in one term.
impl PartialEq for Master {
    fn eq(&self, other: &Self) -> bool {
        (&self.name, self.epoch) == (&other.name, other.epoch)
    }
}

impl fmt::Display for Master {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&address_text(&self.address))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sentinels() -> Source {
        Source::Sentinels {
            master: String::new(),
            login: Login::Fixed(None),
        }
    }

    const CLUSTER: Source = Source::Cluster { slot: 0 };

    fn address() -> ConnectionAddr {
        ConnectionAddr::Tcp("h".to_owned(), 1)
    }

    /// Who says it, how many there are, whom it names, and with which epoch.
    fn said(answers: &[(&str, usize, &str, u64)]) -> Vec<Said> {
        let said = answers.iter().map(|&(by, count, name, epoch)| {
            let answer = Answer {
                master: Master {
                    address: address(),
                    name: name.to_owned(),
                    epoch,
                },
                by: by.to_owned(),
                count,
                known: Vec::new(),
                others: Vec::new(),
            };
            (address(), Ok(answer))
        });
        said.collect()
    }

    #[test]
    fn a_majority_of_all_that_are_known_names_the_master() {
        // In a cluster the owner names itself, and nobody names a later one.
        let [both, only_sentinels, neither] = [[true, true], [true, false], [false, false]];
        for (least, answers, named) in [
            (2, &[("a", 3, "a", 7)][..], neither),
            (2, &[("a", 3, "a", 7), ("b", 4, "a", 7)], neither),
            (3, &[("a", 3, "a", 7), ("b", 3, "a", 7)], both),
            (
                2,
                &[("a", 3, "a", 7), ("b", 4, "a", 7), ("c", 3, "a", 7)],
                both,
            ),
            (
                6,
                &[("a", 3, "a", 7), ("b", 4, "a", 7), ("c", 3, "a", 7)],
                neither,
            ),
            // Two addresses of one, and two terms.
            (3, &[("a", 3, "a", 7), ("a", 3, "a", 7)], neither),
            (3, &[("a", 3, "a", 7), ("b", 3, "a", 6)], neither),
            (3, &[("a", 3, "a", 7), ("b", 3, "b", 7)], neither),
            (3, &[("b", 3, "a", 7), ("c", 3, "a", 7)], only_sentinels),
            (
                3,
                &[("b", 3, "a", 7), ("c", 3, "a", 7), ("a", 3, "a", 8)],
                only_sentinels,
            ),
            (
                4,
                &[
                    ("a", 4, "a", 7),
                    ("b", 4, "a", 7),
                    ("d", 4, "d", 8),
                    ("c", 4, "a", 7),
                ],
                only_sentinels,
            ),
            (
                4,
                &[
                    ("a", 4, "a", 7),
                    ("b", 4, "a", 7),
                    ("d", 4, "d", 6),
                    ("c", 4, "a", 7),
                ],
                both,
            ),
        ] {
            let said = said(answers);
            for (source, is_named) in [sentinels(), CLUSTER].iter().zip(named) {
                let (master, _) = source.majority(&said, least);
                let master = master.map(|it| (&*it.name, it.epoch));
                let expected = is_named.then_some(("a", 7));
                assert_eq!(master, expected, "{source}: {least}, {answers:?}");
            }
        }
    }

    #[test]
    fn those_that_do_not_know_each_other_are_no_majority_of_both() {
        let mut all = said(&[("x", 1, "x", 7)]);
        let mut add = |by: &str, known: &[&str]| {
            let mut more = said(&[(by, known.len(), known[0], 7)]);
            for (_, answer) in &mut more {
                let known = known.iter().map(|&id| id.to_owned());
                answer.as_mut().unwrap().known = known.collect();
            }
            all.extend(more);
            let (master, _) = CLUSTER.majority(&all, 1);
            master.map(|it| it.name.clone())
        };
        assert_eq!(add("x", &["x"]), Some("x".to_owned()));
        assert_eq!(add("a", &["a", "b", "c"]), None);
        assert_eq!(add("b", &["a", "b", "c"]), None);
        assert_eq!(add("c", &["a", "b", "c"]), Some("a".to_owned()));
    }

    #[test]
    fn one_that_is_asked_is_no_majority_in_words() {
        let said = [(address(), Err("no".into()))];
        for (source, count, expected) in [
            (
                sentinels(),
                1,
                "the only known sentinel names no master ``: h:1 said: no",
            ),
            (
                sentinels(),
                2,
                "no majority of 2 sentinels names one master ``: h:1 said: no",
            ),
            (
                CLUSTER,
                1,
                "the only known server of the cluster names no owner of slot 0: h:1 said: no",
            ),
        ] {
            assert_eq!(source.failure(&said, count).to_string(), expected);
        }
    }
}
