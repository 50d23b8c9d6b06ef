//! Commands as servers read them.

use std::time::Duration;

use redlock_protocol::{Owner, Process, Token};
use uuid::Uuid;

/// One word of a command: its name, or an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Word<'a> {
    Text(&'a str),
    /// A key, without what all keys on the server begin with.
    Key(&'a str),
    Number(u64),
    /// What stands under the key of a lock.
    Owner(Owner),
    /// The name of the queue for this lock.
    Queue(&'a str),
    /// Where the owner of this lock says what it has to say.
    Note(&'a str),
}

/// How the names of queues begin. They expire by themselves.
pub(crate) const QUEUE: &str = "__redlock:queue:";

/// How the names of notes begin. They expire with their locks.
pub(crate) const NOTE: &str = "__redlock:note:";

/// What the owner of a lock says, if what stands there is its note and not that of an earlier owner.
pub(crate) fn note_of<'a>(owner: &str, kept: &'a str) -> Option<&'a str> {
    kept.strip_prefix(owner)?.strip_prefix(' ')
}

/// What the holder of a lock says to those who look at it: its fencing token, and its value.
pub(crate) fn note(token: Token, value: &str) -> String {
    format!("{} {value}", token.0)
}

/// The token and the value in a note.
pub(crate) fn read_note(note: &str) -> Option<(u64, &str)> {
    let (token, value) = note.split_once(' ')?;
    Some((token.parse().ok()?, value))
}

/// A command, word by word.
pub(crate) type Command<'a> = Vec<Word<'a>>;

/// A command that consists of texts.
pub(crate) fn words<'a, const N: usize>(texts: [&'a str; N]) -> Command<'a> {
    texts.map(Word::Text).into()
}

/// Puts a command behind what is in the buffer. All keys begin with `tag`.
pub(crate) fn write(command: &[Word<'_>], tag: &str, out: &mut Vec<u8>) {
    write_length(b'*', command.len(), out);
    for word in command {
        match *word {
            Word::Text(text) => write_word(text.as_bytes(), out),
            Word::Number(number) => write_word(itoa::Buffer::new().format(number).as_bytes(), out),
            Word::Owner(owner) => write_word(&owner_value(owner), out),
            Word::Key(key) => write_key([tag, key, ""], out),
            Word::Queue(key) => write_key([tag, QUEUE, key], out),
            Word::Note(key) => write_key([tag, NOTE, key], out),
        }
    }
}

fn write_key(parts: [&str; 3], out: &mut Vec<u8>) {
    write_length(b'$', parts.iter().map(|part| part.len()).sum(), out);
    for part in parts {
        out.extend_from_slice(part.as_bytes());
    }
    out.extend_from_slice(b"\r\n");
}

fn write_word(word: &[u8], out: &mut Vec<u8>) {
    write_length(b'$', word.len(), out);
    out.extend_from_slice(word);
    out.extend_from_slice(b"\r\n");
}

/// The formatting of the standard library takes several times as long, and a request has twenty numbers in it.
fn write_length(kind: u8, length: usize, out: &mut Vec<u8>) {
    out.push(kind);
    out.extend_from_slice(itoa::Buffer::new().format(length).as_bytes());
    out.extend_from_slice(b"\r\n");
}

/// The first characters of an owner's value that are its process.
pub(crate) const PROCESS_LENGTH: usize = 18;

/// What stands under the lock key: the owner's random id, as text that people can compare. Its first
/// 18 characters are the process, which the scripts rely on.
pub(crate) fn owner_value(owner: Owner) -> [u8; 36] {
    let mut text = [0; 36];
    Uuid::from_u128(owner.0)
        .hyphenated()
        .encode_lower(&mut text);
    text
}

pub(crate) fn owner_text(owner: Owner) -> String {
    String::from_utf8_lossy(&owner_value(owner)).into_owned()
}

/// What every owner of this process begins with.
pub(crate) fn process_text(process: Process) -> String {
    let mut text = owner_text(Owner(u128::from(process.0) << 64));
    text.truncate(PROCESS_LENGTH);
    text
}

/// A span as scripts are given it.
pub(super) fn millis(span: Duration) -> Word<'static> {
    Word::Number(redlock_protocol::millis(span))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_written_as_the_client_of_redis_writes_them() {
        let owner = Owner(0x67e5_5044_10b1_426f_9247_bb68_0e5f_e0c8);
        for number in [0, 9, 10, 99, 100, 1 << 52, u64::MAX] {
            let mut ours = b"before".to_vec();
            let text = "\u{e9} \r\n";
            let command = [
                Word::Text("SET"),
                Word::Text(text),
                Word::Number(number),
                Word::Text(""),
                Word::Owner(owner),
                Word::Queue("k"),
                Word::Note("k"),
                Word::Key("k"),
            ];
            write(&command, "{t}", &mut ours);
            let mut theirs = redis::cmd("SET");
            theirs.arg(text).arg(number).arg("");
            theirs.arg("67e55044-10b1-426f-9247-bb680e5fe0c8");
            theirs.arg("{t}__redlock:queue:k");
            theirs.arg("{t}__redlock:note:k").arg("{t}k");
            let theirs = theirs.get_packed_command();
            assert_eq!(ours.strip_prefix(b"before"), Some(&theirs[..]));
        }
    }
}
