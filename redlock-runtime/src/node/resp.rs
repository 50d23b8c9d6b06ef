//! Values as servers write them: where one ends, and what it says.
//!
//! The end is looked for first, and every byte is looked at once, however slowly a server writes. So the
//! parser only ever gets whole values, of a size and depth that are known to be harmless.

use std::str;

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

const LINE_END: &[u8] = b"\r\n";

/// Why a connection cannot be read any further.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Malformed {
    NoValue,
    TooLarge,
}

/// How far the value at the beginning of a buffer has been looked at.
#[derive(Debug, Default)]
pub(super) struct Scan {
    /// The values before are whole.
    at: usize,
    /// No line ends between `at` and here.
    looked: usize,
    /// How many values are missing on each level.
    open: Vec<usize>,
    values: usize,
}

impl Scan {
    /// The length of the value at the beginning of `bytes`, or `None` if it goes on beyond them. To be
    /// called again with the same bytes and more behind them, until it is found.
    pub(super) fn end(&mut self, bytes: &[u8]) -> Result<Option<usize>, Malformed> {
        loop {
            let Some(line) = self.line(bytes)? else {
                return Ok(None);
            };
            let behind = self.at + line.len() + LINE_END.len();
            let (body, inside) = header(line)?;
            let behind = match body {
                Some(length) => {
                    let end = behind + length + LINE_END.len();
                    if end > LARGEST {
                        return Err(Malformed::TooLarge);
                    }
                    let Some(last) = bytes.get(end - LINE_END.len()..end) else {
                        return Ok(None);
                    };
                    if last != LINE_END {
                        return Err(Malformed::NoValue);
                    }
                    end
                }
                None => behind,
            };
            self.at = behind;
            self.looked = behind;
            if self.is_whole_with(inside)? {
                self.open.clear();
                self.values = 0;
                self.looked = 0;
                return Ok(Some(std::mem::take(&mut self.at)));
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

    /// Counts one more value, with so many `inside`. True if nothing is missing any more.
    fn is_whole_with(&mut self, inside: usize) -> Result<bool, Malformed> {
        self.values += 1;
        let missing = self.open.iter().sum::<usize>();
        if inside > MOST_VALUES || self.values + missing + inside > MOST_VALUES {
            return Err(Malformed::TooLarge);
        }
        if inside > 0 {
            self.open.push(inside);
            return if self.open.len() > DEEPEST {
                Err(Malformed::TooLarge)
            } else {
                Ok(false)
            };
        }
        while let Some(missing) = self.open.last_mut() {
            *missing -= 1;
            if *missing > 0 {
                return Ok(false);
            }
            self.open.pop();
        }
        Ok(true)
    }
}

/// What follows the first line of a value: so many bytes and the end of a line, and so many values.
fn header(line: &[u8]) -> Result<(Option<usize>, usize), Malformed> {
    let (kind, rest) = line.split_first().ok_or(Malformed::NoValue)?;
    // It is read again whenever more of what follows has come.
    if rest.len() > LONGEST_NUMBER && !b"+-(".contains(kind) {
        return Err(Malformed::TooLarge);
    }
    let text = str::from_utf8(rest).map_err(|_| Malformed::NoValue)?;
    let size = || usize::try_from(integer(text)?.max(0)).map_err(|_| Malformed::NoValue);
    let bounded = |size: usize| {
        if size > LARGEST {
            Err(Malformed::TooLarge)
        } else {
            Ok(size)
        }
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
        b'$' => (Some(bounded(size()?)?), 0),
        b'!' | b'=' if integer(text)? >= 0 => (Some(bounded(size()?)?), 0),
        b'*' | b'~' | b'>' => (None, bounded(size()?)?),
        b'%' if integer(text)? >= 0 => (None, 2 * bounded(size()?)?),
        b'|' if integer(text)? >= 0 => (None, 2 * bounded(size()?)? + 1),
        _ => return Err(Malformed::NoValue),
    })
}

/// As the parser of `redis` reads them.
fn integer(text: &str) -> Result<i64, Malformed> {
    text.trim().parse().map_err(|_| Malformed::NoValue)
}

/// What these bytes say, which are one value and no more.
pub(super) fn value(bytes: &[u8]) -> Result<Value, Malformed> {
    match usual(bytes) {
        Some((value, [])) => Ok(value),
        _ => redis::parse_redis_value(bytes).map_err(|_| Malformed::NoValue),
    }
}

/// The value at the beginning and what is behind it, if it is of the kinds that nearly all replies
/// consist of.
fn usual(bytes: &[u8]) -> Option<(Value, &[u8])> {
    let end = bytes.windows(2).position(|pair| pair == LINE_END)?;
    let (line, mut rest) = (&bytes[..end], &bytes[end + LINE_END.len()..]);
    let (kind, text) = line.split_first()?;
    if line == b"+OK" {
        return Some((Value::Okay, rest));
    }
    let number = || integer(str::from_utf8(text).ok()?).ok();
    match kind {
        b':' => Some((Value::Int(number()?), rest)),
        b'_' if text.is_empty() => Some((Value::Nil, rest)),
        b'$' => {
            let Ok(length) = usize::try_from(number()?) else {
                return Some((Value::Nil, rest));
            };
            let (text, behind) = rest.split_at_checked(length)?;
            let rest = behind.strip_prefix(LINE_END)?;
            Some((Value::BulkString(text.to_vec()), rest))
        }
        b'*' => {
            let length = usize::try_from(number()?).ok()?;
            let mut values = Vec::with_capacity(length.min(rest.len()));
            for _ in 0..length {
                let (value, behind) = usual(rest)?;
                values.push(value);
                rest = behind;
            }
            Some((Value::Array(values), rest))
        }
        _ => None,
    }
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
    fn slowly(bytes: &[u8]) -> Result<Option<usize>, Malformed> {
        let mut scan = Scan::default();
        for length in 0..bytes.len() {
            if let Some(end) = scan.end(&bytes[..length])? {
                return Ok(Some(end));
            }
        }
        scan.end(bytes)
    }

    #[test]
    fn values_end_where_they_end_however_they_come_in() {
        for text in [
            "+OK\r\n",
            ":-7\r\n",
            "$0\r\n\r\n",
            "$-1\r\n",
            "$4\r\n\r\n\r\n\r\n",
            "*0\r\n",
            "*-1\r\n",
            "*3\r\n:1\r\n*1\r\n$1\r\nx\r\n_\r\n",
            "%1\r\n+a\r\n#t\r\n",
            ">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\nk\r\n",
            "=6\r\ntxt:hi\r\n",
            "-ERR a\rb\nc\r\n",
            ",1.5\r\n",
        ] {
            let length = text.len();
            let followed = format!("{text}+more\r\n");
            assert_eq!(slowly(followed.as_bytes()), Ok(Some(length)), "{text:?}");
            let mut scan = Scan::default();
            for _ in 0..2 {
                assert_eq!(scan.end(followed.as_bytes()), Ok(Some(length)), "{text:?}");
            }
            let parsed = redis::parse_redis_value(text.as_bytes());
            assert_eq!(value(text.as_bytes()), Ok(parsed.unwrap()), "{text:?}");
        }
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
        assert_eq!(Scan::default().end(&endless), Err(Malformed::TooLarge));
        let deep = "*1\r\n".repeat(DEEPEST) + ":1\r\n";
        assert_eq!(slowly(deep.as_bytes()), Ok(Some(deep.len())));
    }

    /// As the parser of `redis`: the same values, and the same inputs refused. What it refuses, may
    /// still be incomplete here.
    fn compare(seed: u64, inputs: usize) {
        let mut maker = Maker(seed);
        let mut whole = 0;
        for _ in 0..inputs {
            let mut bytes = Vec::new();
            maker.value(&mut bytes, 0);
            maker.spoil(&mut bytes);
            // The other parser makes room for as many values as are announced.
            let announces_many = |line: &[u8]| line.len() > 6 && b"*~%|>".contains(&line[0]);
            if bytes.split(|&byte| byte == b'\n').any(announces_many) {
                continue;
            }
            let text = || String::from_utf8_lossy(&bytes).into_owned();
            let end = slowly(&bytes);
            assert_eq!(end, Scan::default().end(&bytes), "{:?}", text());
            let theirs = redis::parse_redis_value(&bytes).map_err(drop);
            let ours = match end {
                Ok(Some(end)) => value(&bytes[..end]).map_err(drop),
                Ok(None) | Err(_) => Err(()),
            };
            // Not every number is equal to itself.
            let (ours, theirs) = (format!("{ours:?}"), format!("{theirs:?}"));
            assert_eq!(ours, theirs, "{:?}", text());
            whole += usize::from(ours.starts_with("Ok"));
        }
        assert!(whole > inputs / 10, "only {whole} of {inputs} were values");
    }

    #[test]
    fn values_are_read_as_the_parser_of_redis_reads_them() {
        compare(1, 300_000);
    }

    #[test]
    #[ignore = "takes minutes without optimization"]
    fn values_are_read_as_the_parser_of_redis_reads_them_ten_million_times() {
        for seed in 2..12 {
            compare(seed, 1_000_000);
        }
    }

    /// xorshift: the same inputs for the same seed.
    struct Maker(u64);

    impl Maker {
        fn below(&mut self, limit: usize) -> usize {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % limit
        }

        fn value(&mut self, out: &mut Vec<u8>, depth: usize) {
            const KINDS: &[u8] = b"+-:$*_,#!=(%~>|";
            const TEXTS: [&str; 12] = [
                "OK", "", "ERR no", "t", "f", "1.5", "-inf", "nan", "txt:hi", "mkd:", "\r",
                "\u{e9}",
            ];
            let last = if depth < 4 { KINDS.len() } else { 4 };
            let kind = KINDS[self.below(last)];
            out.push(kind);
            match kind {
                b'$' | b'!' | b'=' => {
                    let text = TEXTS[self.below(TEXTS.len())];
                    out.extend(format!("{}\r\n{text}\r\n", text.len()).bytes());
                }
                b'*' | b'~' | b'>' | b'%' | b'|' => {
                    let count = self.below(4);
                    out.extend(format!("{count}\r\n").bytes());
                    let inside = match kind {
                        b'%' => 2 * count,
                        b'|' => 2 * count + 1,
                        _ => count,
                    };
                    (0..inside).for_each(|_| self.value(out, depth + 1));
                }
                b':' => {
                    let number = self.below(3) as i64 - 1;
                    let number = number * (self.below(1 << 20) as i64);
                    out.extend(format!("{number}\r\n").bytes());
                }
                _ => {
                    out.extend(TEXTS[self.below(TEXTS.len())].bytes());
                    out.extend(LINE_END);
                }
            }
        }

        /// Changes some bytes, or none.
        fn spoil(&mut self, bytes: &mut Vec<u8>) {
            const BYTES: &[u8] = b"\r\n+-:$*_,#!=(%~>|0129 \xff";
            for _ in 0..self.below(3) {
                let at = self.below(bytes.len() + 1);
                let byte = BYTES[self.below(BYTES.len())];
                match self.below(4) {
                    0 => bytes.insert(at, byte),
                    1 => bytes.truncate(at),
                    _ if at == bytes.len() => {}
                    2 => bytes[at] = byte,
                    _ => drop(bytes.remove(at)),
                }
            }
        }
    }
}
