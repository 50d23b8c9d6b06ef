//! What electors answer, counted.

use std::{collections::BTreeSet, mem};

use redis::ConnectionAddr;
use redlock_protocol::{Why, WhyKind};

use super::{
    address::address_text,
    office::{Master, Office},
};

/// What one elector says.
pub(super) struct Answer {
    pub(super) master: Master,
    /// Who it is: two addresses may lead to one.
    pub(super) elector: String,
    /// How many electors it knows, itself included.
    pub(super) electors: usize,
    /// Who they are, if it says so.
    pub(super) known: Vec<String>,
    /// Where they are, if it says so.
    pub(super) others: Vec<ConnectionAddr>,
}

/// What they have said.
pub(super) struct Ballot<'a> {
    office: &'a Office,
    /// What the first failure was that there is advice for.
    kind: Option<WhyKind>,
    electors: usize,
    /// By all that answered together: servers of different clusters are no majority of both.
    known: BTreeSet<String>,
    votes: Vec<Answer>,
    listed: Vec<ConnectionAddr>,
    said: Vec<String>,
}

impl<'a> Ballot<'a> {
    /// Of so many electors or more.
    pub(super) const fn new(office: &'a Office, electors: usize) -> Self {
        Self {
            office,
            electors,
            known: BTreeSet::new(),
            votes: Vec::new(),
            listed: Vec::new(),
            said: Vec::new(),
            kind: None,
        }
    }

    /// The master that is named by now.
    pub(super) fn add(
        &mut self,
        address: &ConnectionAddr,
        answer: Result<Answer, Why>,
    ) -> Option<Master> {
        let address = address_text(address);
        match answer {
            Ok(mut vote) => {
                self.said.push(format!("{address} names {}", vote.master));
                self.known.extend(mem::take(&mut vote.known));
                self.electors = self.electors.max(vote.electors).max(self.known.len());
                self.listed.extend(mem::take(&mut vote.others));
                let is_new = |known: &Answer| known.elector != vote.elector;
                if self.votes.iter().all(is_new) {
                    self.votes.push(vote);
                }
            }
            Err(why) => {
                if why.kind != WhyKind::Other {
                    self.kind.get_or_insert(why.kind);
                }
                self.said.push(format!("{address} said: {why}"));
            }
        }
        let mut masters = self.votes.iter().map(|vote| &vote.master);
        masters.find(|master| self.is_named(master)).cloned()
    }

    /// A majority of all names it.
    fn is_named(&self, master: &Master) -> bool {
        let votes = self.votes.iter().filter(|vote| vote.master == *master);
        let is_majority = votes.clone().count() > self.electors / 2;
        is_majority
            && match self.office {
                Office::Master(_) => true,
                // See there why it must name itself, and no elector a later one.
                Office::Slot(_) => {
                    let is_later = |vote: &Answer| vote.master.epoch > master.epoch;
                    votes.clone().any(|vote| vote.elector == master.name)
                        && !self.votes.iter().any(is_later)
                }
            }
    }

    /// How many there are.
    pub(super) const fn electors(&self) -> usize {
        self.electors
    }

    /// One of the electors is there, as one of them says.
    pub(super) fn is_listed(&self, address: &ConnectionAddr) -> bool {
        self.listed.contains(address)
    }

    pub(super) fn failure(&self) -> Why {
        let (office, said) = (self.office, self.said.join(", "));
        let (one, they) = (office.elector(), office.electors());
        let text = match self.electors {
            1 => format!("the only known {one} names no {office}: {said}"),
            count => format!("no majority of {count} {they} names one {office}: {said}"),
        };
        Why::new(self.kind.unwrap_or(WhyKind::Other), text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SENTINELS: Office = Office::Master(String::new());
    const CLUSTER: Office = Office::Slot(0);

    /// What they say in turn: who, of how many, whom it names, and in which term.
    fn named(
        office: &Office,
        least: usize,
        votes: &[(&str, usize, &str, u64)],
    ) -> Vec<Option<String>> {
        let mut ballot = Ballot::new(office, least);
        let address = ConnectionAddr::Tcp("h".to_owned(), 1);
        let mut add = |&(elector, electors, name, epoch): &(&str, usize, &str, u64)| {
            let master = Master {
                address: address.clone(),
                name: name.to_owned(),
                epoch,
            };
            let answer = Answer {
                master,
                elector: elector.to_owned(),
                electors,
                known: Vec::new(),
                others: Vec::new(),
            };
            let named = ballot.add(&address, Ok(answer));
            named.map(|master| format!("{}@{}", master.name, master.epoch))
        };
        votes.iter().map(&mut add).collect()
    }

    fn last(office: &Office, least: usize, votes: &[(&str, usize, &str, u64)]) -> Option<String> {
        named(office, least, votes).pop().flatten()
    }

    #[test]
    fn a_majority_of_all_that_are_known_names_the_master() {
        for office in [SENTINELS, CLUSTER] {
            let votes = [("a", 3, "a", 7), ("b", 4, "a", 7), ("c", 3, "a", 7)];
            let expected = [None, None, Some("a@7".to_owned())];
            assert_eq!(named(&office, 2, &votes), expected);
            assert_eq!(last(&office, 6, &votes), None);
            // Two addresses of one, and two terms.
            assert_eq!(last(&office, 3, &[votes[0], votes[0]]), None);
            assert_eq!(last(&office, 3, &[votes[0], ("b", 3, "a", 6)]), None);
            assert_eq!(last(&office, 3, &[votes[0], ("b", 3, "b", 7)]), None);
        }
    }

    #[test]
    fn those_that_do_not_know_each_other_are_no_majority_of_both() {
        let mut ballot = Ballot::new(&CLUSTER, 1);
        let address = ConnectionAddr::Tcp("h".to_owned(), 1);
        let mut add = |elector: &str, known: &[&str]| {
            let answer = Answer {
                master: Master {
                    address: address.clone(),
                    name: known[0].to_owned(),
                    epoch: 7,
                },
                elector: elector.to_owned(),
                electors: known.len(),
                known: known.iter().map(|&id| id.to_owned()).collect(),
                others: Vec::new(),
            };
            ballot.add(&address, Ok(answer)).map(|master| master.name)
        };
        assert_eq!(add("x", &["x"]), Some("x".to_owned()));
        assert_eq!(add("a", &["a", "b", "c"]), None);
        assert_eq!(add("b", &["a", "b", "c"]), None);
        assert_eq!(add("c", &["a", "b", "c"]), Some("a".to_owned()));
    }

    #[test]
    fn the_owner_of_a_slot_names_itself() {
        let votes = [("b", 3, "a", 7), ("c", 3, "a", 7)];
        assert_eq!(last(&SENTINELS, 3, &votes), Some("a@7".to_owned()));
        assert_eq!(last(&CLUSTER, 3, &votes), None);
        // By itself it is in another term.
        let itself = [votes[0], votes[1], ("a", 3, "a", 8)];
        assert_eq!(last(&CLUSTER, 3, &itself), None);
    }

    #[test]
    fn nobody_names_a_later_owner_of_a_slot() {
        let votes = [("a", 5, "a", 7), ("b", 5, "a", 7), ("c", 5, "a", 7)];
        let later = [votes[0], votes[1], ("d", 5, "d", 8), votes[2]];
        assert_eq!(last(&SENTINELS, 5, &later), Some("a@7".to_owned()));
        assert_eq!(last(&CLUSTER, 5, &later), None);
        let earlier = [votes[0], votes[1], ("d", 5, "d", 6), votes[2]];
        assert_eq!(last(&CLUSTER, 5, &earlier), Some("a@7".to_owned()));
    }

    #[test]
    fn one_elector_is_no_majority_in_words() {
        let failure = |office: &Office, electors| {
            let mut ballot = Ballot::new(office, electors);
            let address = ConnectionAddr::Tcp("h".to_owned(), 1);
            ballot.add(&address, Err("no".into()));
            ballot.failure().to_string()
        };
        for (office, electors, expected) in [
            (&SENTINELS, 1, "the only known sentinel names no master ``"),
            (
                &SENTINELS,
                2,
                "no majority of 2 sentinels names one master ``",
            ),
            (
                &CLUSTER,
                1,
                "the only known server of the cluster names no owner of slot 0",
            ),
        ] {
            let expected = format!("{expected}: h:1 said: no");
            assert_eq!(failure(office, electors), expected);
        }
    }
}
