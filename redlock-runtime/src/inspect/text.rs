//! What operators read of a lock.

use std::fmt;

use redlock_protocol::majority;

use super::found::{Holder, HolderKind, Inspection, LocalSection};
use crate::{health::counted, key::shown, node::ClientProcess};

impl fmt::Display for Inspection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.nodes.len();
        let replied = self.nodes.iter().filter(|node| node.problem.is_none());
        let replied = replied.count();
        let most = self.holders.iter().map(|holder| holder.nodes.len()).max();
        // The others may have it, too.
        let may_be_on = most.unwrap_or_default() + count - replied;
        let state = match (self.is_held(), most) {
            (true, _) => "is held",
            (false, _) if may_be_on >= majority(count) => "may be held",
            (false, None) => "is free",
            (false, Some(_)) => "is held by no client, but stands on some nodes",
        };
        write!(
            f,
            "{} {state}; {replied} of {} replied",
            shown(&self.key),
            counted(count, "node")
        )?;
        for holder in &self.holders {
            write!(f, "\n  ")?;
            holder.write(count, f)?;
        }
        for waiter in &self.waiters {
            match &waiter.process {
                Some(process) => write!(f, "\n  waits: {process}")?,
                None => write!(f, "\n  waits: process {}, not connected", waiter.id)?,
            }
            if waiter.is_shared {
                f.write_str(", to share it")?;
            }
            write!(f, ", for {:.1?}", waiter.waited)?;
        }
        for section in &self.sections {
            write!(f, "\n  in this process: {section}")?;
        }
        for node in &self.nodes {
            if let Some(problem) = &node.problem {
                write!(f, "\n  {} could not be read: {problem}", node.address)?;
            }
            if let Some(reason) = &node.hides_clients {
                let address = &node.address;
                write!(f, "\n  {address} does not list its clients: {reason}")?;
            }
        }
        Ok(())
    }
}

impl Holder {
    fn write(&self, count: usize, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(permit) = self.permit {
            write!(f, "permit {permit}: ")?;
        }
        match (&self.process, self.kind) {
            (_, HolderKind::Foreign) => {
                let value = &self.owner;
                write!(f, "a value that this library did not write, {value:?}")?;
            }
            (Some(process), _) => write!(f, "{process}")?,
            (None, _) => write!(f, "a process that is not connected under its name")?,
        }
        if self.kind == HolderKind::Shared {
            f.write_str(", sharing it")?;
        }
        write!(f, ", on {} of {}", self.nodes.len(), counted(count, "node"))?;
        match self.remaining() {
            Some(remaining) => write!(f, ", for another {remaining:.1?}")?,
            None => f.write_str(", without expiry")?,
        }
        if let Some(value) = &self.value {
            write!(f, ", value {value:?}")?;
        }
        match self.kind {
            HolderKind::Foreign => Ok(()),
            _ => write!(f, ", owner {}", self.owner),
        }
    }
}

/// "orders on web-3, process 4711, from 10.0.0.5:51234"
impl fmt::Display for ClientProcess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} on {}, process {}", self.service, self.host, self.pid)?;
        match (self.is_this, &self.address) {
            (true, _) => f.write_str(" (this one)"),
            (false, Some(address)) => write!(f, ", from {address}"),
            (false, None) => Ok(()),
        }?;
        match self.connected {
            Some(connected) => write!(f, ", connected for {}s", connected.as_secs()),
            None => Ok(()),
        }
    }
}

impl fmt::Display for LocalSection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name.unwrap_or("a section without a name"))?;
        match (self.waits, self.remaining.is_zero()) {
            (true, _) => f.write_str(" waits"),
            (false, true) => f.write_str(" has not let go after the end of its lease"),
            (false, false) => write!(f, " holds it for another {:.1?}", self.remaining),
        }?;
        write!(f, ", asked for it {:.1?} ago", self.asked)
    }
}
