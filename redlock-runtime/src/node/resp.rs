//! Values as servers write them: where one ends, and what it says.
//!
//! Every byte is looked at once, however slowly a server writes. The parser of `redis` reads what is neither a
//! text, a number nor an array of such, and only ever gets whole values, of a size that is known to be harmless.

use std::{mem, str};

use redis::{FromRedisValue, Value};
use redlock_protocol::Why;

use super::reason::{of_server, reason};

/// No value may be longer. What a node is asked for takes some hundred bytes, but under the key of a
/// lock there may be anything.
const LARGEST: usize = 16 << 20;

/// No value may consist of more values: in memory each of them takes many times as much as on its way.
const MOST_VALUES: usize = 1 << 16;

/// How deep values may be nested.
const DEEPEST: usize = 16;

/// The longest line that is not a text of its own.
const LONGEST_NUMBER: usize = 512;

/// Room that is made for what is inside of a value before it has come.
const USUAL: usize = 64;

const LINE_END: &[u8] = b"\r\n";

/// Why a connection cannot be read any further.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Malformed {
    NoValue,
    TooLarge,
}

/// How far the value at the beginning of a buffer has been read.
#[derive(Debug, Default)]
pub(super) struct Reader {
    /// The values before have been read.
    at: usize,
    /// No line ends between `at` and here.
    looked: usize,
    /// The values around the next one.
    open: Vec<Open>,
    values: usize,
}

/// A value that consists of others.
#[derive(Debug)]
struct Open {
    start: usize,
    missing: usize,
    inside: Vec<Value>,
}

impl Reader {
    /// The value at the beginning of `bytes` and its length, or `None` if it goes on beyond them. To be
    /// called again with the same bytes and more behind them, until it is found.
    pub(super) fn next(&mut self, bytes: &[u8]) -> Result<Option<(Value, usize)>, Malformed> {
        loop {
            let Some(line) = self.line(bytes)? else {
                return Ok(None);
            };
            let behind = self.at + line.len() + LINE_END.len();
            let (body, inside) = header(line)?;
            let end = behind + body.map_or(0, |length| length + LINE_END.len());
            if end > LARGEST && body.is_some() {
                return Err(Malformed::TooLarge);
            }
            let Some(whole) = bytes.get(self.at..end) else {
                return Ok(None);
            };
            if !whole.ends_with(LINE_END) {
                return Err(Malformed::NoValue);
            }
            let start = mem::replace(&mut self.at, end);
            self.looked = end;
            self.count(inside)?;
            if inside > 0 {
                self.open.push(Open {
                    start,
                    missing: inside,
                    inside: Vec::with_capacity(inside.min(USUAL)),
                });
                continue;
            }
            if let Some(value) = self.close(simple(whole, line, behind - start)?, bytes)? {
                *self = Self {
                    open: mem::take(&mut self.open),
                    ..Self::default()
                };
                return Ok(Some((value, end)));
            }
        }
    }

    /// The line that begins where the scan has come to.
    fn line<'a>(&mut self, bytes: &'a [u8]) -> Result<Option<&'a [u8]>, Malformed> {
        let from = self.looked.max(self.at);
        let rest = bytes.get(from..).unwrap_or_default();
        match rest.windows(2).position(|pair| pair == LINE_END) {
            Some(length) => Ok(Some(&bytes[self.at..from + length])),
            None if bytes.len() > LARGEST => Err(Malformed::TooLarge),
            None => {
                // The last byte may be the first half of a line's end.
                self.looked = from.max(bytes.len().saturating_sub(1));
                Ok(None)
            }
        }
    }

    /// Counts one more value, which has `inside` values of its own.
    fn count(&mut self, inside: usize) -> Result<(), Malformed> {
        self.values += 1;
        let missing: usize = self.open.iter().map(|open| open.missing).sum();
        let is_too_deep = inside > 0 && self.open.len() == DEEPEST;
        if is_too_deep || inside > MOST_VALUES || self.values + missing + inside > MOST_VALUES {
            return Err(Malformed::TooLarge);
        }
        Ok(())
    }

    /// Puts a value into the one around it, and that one, if it is whole then, into the next. Returns
    /// the outermost once that is whole.
    fn close(&mut self, mut value: Value, bytes: &[u8]) -> Result<Option<Value>, Malformed> {
        while let Some(mut open) = self.open.pop() {
            open.inside.push(value);
            open.missing -= 1;
            if open.missing > 0 {
                self.open.push(open);
                return Ok(None);
            }
            value = match bytes[open.start] {
                b'*' => Value::Array(open.inside),
                _ => parse(&bytes[open.start..self.at])?,
            };
        }
        Ok(Some(value))
    }
}

/// What follows the first line of a value: a number of bytes and the end of a line, or a number of values.
fn header(line: &[u8]) -> Result<(Option<usize>, usize), Malformed> {
    let (kind, rest) = line.split_first().ok_or(Malformed::NoValue)?;
    // It is read again whenever more of what follows has come.
    if rest.len() > LONGEST_NUMBER && !b"+-(".contains(kind) {
        return Err(Malformed::TooLarge);
    }
    let text = str::from_utf8(rest).map_err(|_| Malformed::NoValue)?;
    let size = || {
        let size = usize::try_from(integer(text)?.max(0)).ok();
        size.filter(|&size| size <= LARGEST)
            .ok_or(Malformed::TooLarge)
    };
    Ok(match kind {
        b'+' | b'-' | b'_' | b'(' => (None, 0),
        b':' => integer(text).map(|_| (None, 0))?,
        b'#' if matches!(text, "t" | "f") => (None, 0),
        b',' => text
            .trim()
            .parse::<f64>()
            .map(|_| (None, 0))
            .map_err(|_| Malformed::NoValue)?,
        b'$' if integer(text)? < 0 => (None, 0),
        b'$' => (Some(size()?), 0),
        b'!' | b'=' if integer(text)? >= 0 => (Some(size()?), 0),
        b'*' | b'~' | b'>' => (None, size()?),
        b'%' if integer(text)? >= 0 => (None, 2 * size()?),
        b'|' if integer(text)? >= 0 => (None, 2 * size()? + 1),
        _ => return Err(Malformed::NoValue),
    })
}

/// As the parser of `redis` reads them.
fn integer(text: &str) -> Result<i64, Malformed> {
    text.trim().parse().map_err(|_| Malformed::NoValue)
}

/// A value that consists of no others, of which this is the first line.
fn simple(whole: &[u8], line: &[u8], behind: usize) -> Result<Value, Malformed> {
    let number = || integer(str::from_utf8(&line[1..]).map_err(|_| Malformed::NoValue)?);
    match line {
        b"+OK" => Ok(Value::Okay),
        b"_" => Ok(Value::Nil),
        [b':', ..] => Ok(Value::Int(number()?)),
        [b'$', ..] if whole.len() > behind => {
            let text = &whole[behind..whole.len() - LINE_END.len()];
            Ok(Value::BulkString(text.to_vec()))
        }
        _ => parse(whole),
    }
}

fn parse(whole: &[u8]) -> Result<Value, Malformed> {
    redis::parse_redis_value(whole).map_err(|_| Malformed::NoValue)
}

/// What a reply says to a question that is not for a lock, if it is no error.
pub(crate) fn read<T: FromRedisValue>(reply: Value) -> Result<T, Why> {
    match reply {
        Value::ServerError(error) => Err(of_server(&error)),
        reply => redis::from_redis_value(reply).map_err(|error| reason(&error).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every byte by itself, as from a server that is very slow.
    fn slowly(bytes: &[u8]) -> Result<Option<(Value, usize)>, Malformed> {
        let mut reader = Reader::default();
        for length in 0..bytes.len() {
            if let Some(read) = reader.next(&bytes[..length])? {
                return Ok(Some(read));
            }
        }
        reader.next(bytes)
    }

    #[test]
    fn what_is_too_large_or_too_deep_is_refused_before_it_has_come() {
        for text in [
            "$16777300\r\n".to_owned(),
            "$9223372036854775807\r\n".to_owned(),
            "*9223372036854775807\r\n".to_owned(),
            "%9223372036854775807\r\n".to_owned(),
            "|4611686018427387904\r\n".to_owned(),
            "*65537\r\n".to_owned(),
            "*60000\r\n*60000\r\n".to_owned(),
            "*1\r\n".repeat(DEEPEST + 1),
            format!("${:01000}\r\n", 7),
        ] {
            assert_eq!(
                slowly(text.as_bytes()),
                Err(Malformed::TooLarge),
                "{text:?}"
            );
        }
        let endless = vec![b'+'; LARGEST + 1];
        assert_eq!(Reader::default().next(&endless), Err(Malformed::TooLarge));
        let deep = "*1\r\n".repeat(DEEPEST) + ":1\r\n";
        assert!(matches!(slowly(deep.as_bytes()), Ok(Some((_, length))) if length == deep.len()));
    }
}
