//! What one server of a Redis Cluster says, and why it is enough: see [`discovery`](super).
//!
//! The node is the server that owns one slot, and all that the library writes there has the same hash tag, so that
//! it is in this slot. All servers of the cluster are sources, replicas included: unlike the masters that vote
//! in the cluster, they stay the same when a replica takes over. What a server names is the owner of the slot
//! and the owner's `configEpoch`, as it knows them (`CLUSTER NODES`).
//!
//! *A server does not go back to an earlier term.* It gives a slot to a server that claims it only if the claim has a
//! higher `configEpoch` than it knows of the owner, and it writes both to disk before it answers. The `configEpoch`
//! of a server never falls. So whatever makes another server the owner ends in another term:
//!
//! - A replica that is elected, by itself or by `CLUSTER FAILOVER`, claims the slots of its master with a new
//!   epoch. So does one that was told to take over without an election (`TAKEOVER`): the epoch may be the one that
//!   another server took at the same moment, but a term also names the server, and no claim wins over an equal one.
//! - A slot that has been moved is claimed by its new owner with the highest epoch that this one knows of.
//! - A former owner that was cut off, and wins its slots back with a still higher epoch, does so in a new term.
//!
//! A server's own epoch also rises when it gets other slots or has to give way to an equal one. That is a new term as
//! well, because no client can tell what was granted elsewhere in between.
//!
//! There are two ways in which a slot has no owner for a moment, and the next claim wins whatever its epoch: the
//! owner says that it has given the slot away, before the server has heard to whom; or an operator takes the slot
//! away (`SETSLOT`, `DELSLOTS`, `FORGET`). Then a former owner's stale claim could win. Three rules more are
//! against that. The owner must be in the majority that names it: what gave the slot away does not name itself, and
//! does not carry out commands for it. No server that answers may name a term with a higher epoch. And tools that
//! move slots tell the new and the old owner first, then the others.
//!
//! A server that still believes that it is the owner carries out commands, for as long as it reaches a
//! majority of the masters, and no longer than `cluster-node-timeout` without; the rules above do not rely on that.
//! What it answers in place of a vote (`MOVED`, `ASK`, `TRYAGAIN`, `CLUSTERDOWN`) it does before it has written
//! anything, so it is a refusal. No redirection is followed: while a slot is being moved, its node gives no lock that
//! it does not have, and once it has been moved there is a new term.
//!
//! An owner that becomes a replica keeps what it has only if the new owner has all of it as well. Otherwise it
//! deletes everything first, and tells clients that track keys. Nothing that it said between its own word that it
//! owns the slot in a term and that notice is of another term or from other data. A server that refuses
//! `CLIENT TRACKING` tells nothing, so it must not get the slot back before its clients have heard that it had
//! lost it.
//!
//! Beyond that are servers that forget the cluster (`CLUSTER RESET`, a lost `nodes.conf`), and more servers
//! joining or leaving at once than leave two majorities with one in common: the page on servers says so.

use redis::ConnectionAddr;
use redlock_protocol::Why;

use super::super::wire::Wire;
use super::source::{Answer, Master};
use crate::script::words;

/// The number of slots of a cluster.
const SLOTS: u16 = 1 << 14;

/// Of a server's id.
const ID_LENGTH: usize = 40;

/// The slot of all keys with this hash tag: CRC-16/XMODEM of it.
pub(crate) fn slot_of(tag: &str) -> u16 {
    let crc = tag.bytes().fold(0, |crc: u16, byte| {
        (0..8).fold(crc ^ u16::from(byte) << 8, |crc, _| match crc >> 15 {
            0 => crc << 1,
            _ => crc << 1 ^ 0x1021,
        })
    });
    crc % SLOTS
}

pub(super) async fn ask(
    wire: &mut Wire,
    slot: u16,
    at: &ConnectionAddr,
    by_name: bool,
) -> Result<Answer, Why> {
    let table: String = wire.ask(words(["CLUSTER", "NODES"])).await?;
    let ConnectionAddr::Tcp(host, _) = at else {
        return Err(NO_TABLE.into());
    };
    read(&table, slot, host, by_name)
}

const NO_TABLE: &str = "the reply is not that of a server of a cluster";

/// A line of `CLUSTER NODES`.
struct Row<'a> {
    id: &'a str,
    address: Option<ConnectionAddr>,
    is_asked: bool,
    /// Not of the cluster yet.
    is_new: bool,
    epoch: u64,
    owns: bool,
}

/// Reads what a server at this host says of all.
fn read(table: &str, slot: u16, host: &str, by_name: bool) -> Result<Answer, Why> {
    let rows = table.lines().map(|line| row(line, slot, host, by_name));
    let mut rows = rows.collect::<Option<Vec<Row<'_>>>>().ok_or(NO_TABLE)?;
    // Their ids are made up.
    rows.retain(|row| !row.is_new);
    let asked = rows.iter().find(|row| row.is_asked).ok_or(NO_TABLE)?;
    let owner = rows
        .iter()
        .find(|row| row.owns)
        .ok_or_else(|| format!("no server owns slot {slot}"))?;
    let address = owner.address.clone();
    let others = rows.iter().filter(|row| !row.is_asked);
    Ok(Answer {
        master: Master {
            address: address.ok_or("it does not say where the owner of the slot is")?,
            name: owner.id.to_owned(),
            epoch: owner.epoch,
        },
        by: asked.id.to_owned(),
        count: rows.len(),
        known: rows.iter().map(|row| row.id.to_owned()).collect(),
        others: others.filter_map(|row| row.address.clone()).collect(),
    })
}

/// `None` if it is no such line.
fn row<'a>(line: &'a str, slot: u16, host: &str, by_name: bool) -> Option<Row<'a>> {
    let fields: Vec<&str> = line.split(' ').collect();
    let [id, address, flags, _, _, _, epoch, _, ref ranges @ ..] = fields[..] else {
        return None;
    };
    let has = |flag| flags.split(',').any(|it| it == flag);
    if id.len() != ID_LENGTH || !id.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return None;
    }
    let is_asked = has("myself");
    let address = address_of(address, is_asked.then_some(host), by_name);
    Some(Row {
        id,
        address: address.filter(|_| !has("noaddr")),
        is_asked,
        is_new: has("handshake"),
        epoch: epoch.parse().ok()?,
        owns: ranges.iter().any(|range| is_in(slot, range)),
    })
}

/// `ip:port@bus-port,name,...`; a server that has not heard its own address from others leaves it out.
fn address_of(text: &str, asked: Option<&str>, by_name: bool) -> Option<ConnectionAddr> {
    let mut parts = text.split(',');
    let (address, name) = (parts.next()?, parts.next().unwrap_or_default());
    let (ip, port) = address.split('@').next()?.rsplit_once(':')?;
    let host = match (ip, asked) {
        _ if by_name && !name.is_empty() => name,
        ("", asked) => asked?,
        (ip, _) => ip,
    };
    let port = port.parse().ok().filter(|&port| port != 0)?;
    Some(ConnectionAddr::Tcp(host.to_owned(), port))
}

/// `7` or `0-5460`; what is in brackets is being moved, and still the owner's.
fn is_in(slot: u16, range: &str) -> bool {
    let (first, last) = range.split_once('-').unwrap_or((range, range));
    let is_in = |first: u16, last: u16| (first..=last).contains(&slot);
    matches!((first.parse(), last.parse()), (Ok(first), Ok(last)) if is_in(first, last))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::address_text;

    #[test]
    fn keys_with_a_tag_are_in_its_slot() {
        for (tag, slot) in [("123456789", 12_739), ("foo", 12_182), ("", 0)] {
            assert_eq!(slot_of(tag), slot, "{tag}");
        }
    }

    const TABLE: &str = "\
        aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa :7000@17000,,tls-port=0 myself,master - 0 0 3 connected 0-9 [7->-bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb]\n\
        bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb 10.0.0.2:7000@17000,b.example master,fail - 0 1 12 disconnected 10 20-30\n\
        cccccccccccccccccccccccccccccccccccccccc ::1:7000@17000 slave aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa 0 1 3 connected\n\
        dddddddddddddddddddddddddddddddddddddddd 10.0.0.4:7000@17000 handshake - 0 1 0 connected\n\
        eeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee :0@0 slave,noaddr - 0 1 0 disconnected\n";

    #[test]
    fn the_owner_of_a_slot_its_epoch_and_all_servers_are_read() {
        let answer = |slot, by_name| {
            let answer = read(TABLE, slot, "10.0.0.1", by_name).unwrap();
            let owner = address_text(&answer.master.address);
            let others: Vec<_> = answer.others.iter().map(address_text).collect();
            (owner, answer.master.epoch, others.join(" "))
        };
        let others = "10.0.0.2:7000 [::1]:7000".to_owned();
        for slot in [0, 7, 9] {
            assert_eq!(
                answer(slot, false),
                ("10.0.0.1:7000".to_owned(), 3, others.clone())
            );
        }
        for slot in [10, 20, 30] {
            let others = "b.example:7000 [::1]:7000".to_owned();
            assert_eq!(
                answer(slot, true),
                ("b.example:7000".to_owned(), 12, others)
            );
        }
        let answer = read(TABLE, 0, "h", false).unwrap();
        assert_eq!((answer.count, &answer.by[..2]), (4, "aa"));
        assert_eq!(answer.master.name, answer.by);
    }

    #[test]
    fn what_is_no_such_table_names_nobody() {
        for (table, slot) in [
            (TABLE, 11),
            ("", 0),
            ("hello", 0),
            (&TABLE.replace("myself,", "")[..], 0),
            (&TABLE.replace(" 3 ", " x ")[..], 0),
            (&TABLE.replace(":7000", ":0")[..], 0),
        ] {
            assert!(read(table, slot, "h", false).is_err(), "{table}");
        }
    }
}
