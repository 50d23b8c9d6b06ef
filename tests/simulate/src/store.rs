//! A store that checks fencing tokens, for one key: nothing of a holder is taken once a later one
//! has been there, however late it arrives.

use redlock_protocol::{SectionId, Token};

/// One who has, or has had, the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Holder {
    pub(crate) client: usize,
    pub(crate) incarnation: u32,
    pub(crate) section: SectionId,
}

#[derive(Debug, Default)]
pub(crate) struct Fenced {
    /// The highest token of a writer that has been here.
    highest: Token,
    /// The highest token of one that only reads: no writer below it is let in any more, but readers
    /// are, because those that overlap have any order.
    read_by: Token,
    value: u64,
    /// Whose operation was accepted last, and those before.
    last: Option<Holder>,
    before: Vec<Holder>,
}

/// What is wrong with an operation that was accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wrong {
    /// Another holder has been here since this one's last operation.
    NotSerial,
    /// It wrote over what it had not read.
    LostUpdate,
    /// It shares the lock, and what it has read has changed.
    Changed,
}

impl Fenced {
    /// Reads, and locks out all earlier holders. `None` if a later one has been here.
    pub(crate) fn read(&mut self, holder: Holder, token: Token) -> Option<Result<u64, Wrong>> {
        let serial = self.enter(holder, token)?;
        Some(serial.map(|()| self.value))
    }

    /// Reads for one that shares the lock. `None` if a later writer has been here.
    pub(crate) fn look(&mut self, token: Token) -> Option<u64> {
        if token < self.highest {
            return None;
        }
        self.read_by = self.read_by.max(token);
        Some(self.value)
    }

    /// Writes what follows from what was read. `None` if a later holder has been here.
    pub(crate) fn write(
        &mut self,
        holder: Holder,
        token: Token,
        read: u64,
    ) -> Option<Result<(), Wrong>> {
        let serial = self.enter(holder, token)?;
        let was_read = read == self.value;
        self.value += 1;
        Some(serial.and_then(|()| was_read.then_some(()).ok_or(Wrong::LostUpdate)))
    }

    fn enter(&mut self, holder: Holder, token: Token) -> Option<Result<(), Wrong>> {
        if token < self.highest.max(self.read_by) {
            return None;
        }
        self.highest = token;
        if self.last == Some(holder) {
            return Some(Ok(()));
        }
        self.before.extend(self.last.replace(holder));
        let again = self.before.contains(&holder);
        Some((!again).then_some(()).ok_or(Wrong::NotSerial))
    }
}
