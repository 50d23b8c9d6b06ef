//! What electors answer, counted.

use std::{mem, sync::Arc};

use redis::ConnectionAddr;

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
    /// Where they are, if it says so.
    pub(super) others: Vec<ConnectionAddr>,
}

/// What they have said.
pub(super) struct Ballot<'a> {
    office: &'a Office,
    electors: usize,
    votes: Vec<Answer>,
    listed: Vec<ConnectionAddr>,
    said: Vec<String>,
}

impl<'a> Ballot<'a> {
    pub(super) const fn new(office: &'a Office, named: usize) -> Self {
        let electors = match office {
            Office::Master(_) => named,
            // One of them that has another name is listed once more.
            Office::Slot(_) => 1,
        };
        Self {
            office,
            electors,
            votes: Vec::new(),
            listed: Vec::new(),
            said: Vec::new(),
        }
    }

    /// The master that is named by now.
    pub(super) fn add(
        &mut self,
        address: &ConnectionAddr,
        answer: Result<Answer, Arc<str>>,
    ) -> Option<Master> {
        let address = address_text(address);
        match answer {
            Ok(mut vote) => {
                self.said.push(format!("{address} names {}", vote.master));
                self.electors = self.electors.max(vote.electors);
                self.listed.extend(mem::take(&mut vote.others));
                let is_new = |known: &Answer| known.elector != vote.elector;
                if self.votes.iter().all(is_new) {
                    self.votes.push(vote);
                }
            }
            Err(reason) => self.said.push(format!("{address} said: {reason}")),
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
                // See there why it must name itself, and nobody a later one.
                Office::Slot(_) => {
                    let is_later = |vote: &Answer| vote.master.epoch > master.epoch;
                    votes.clone().any(|vote| vote.elector == master.name)
                        && !self.votes.iter().any(is_later)
                }
            }
    }

    /// One of the electors is there, as one of them says.
    pub(super) fn is_listed(&self, address: &ConnectionAddr) -> bool {
        self.listed.contains(address)
    }

    pub(super) fn failure(&self) -> Arc<str> {
        let (count, office) = (self.electors, self.office);
        let (they, said) = (office.electors(), self.said.join(", "));
        format!("no majority of {count} {they} names {office}: {said}").into()
    }
}
