//! As much of the Redis protocol as it takes to cut a stream into messages.

/// Cuts a stream into messages: commands in one direction, replies in the other.
#[derive(Debug, Default)]
pub(crate) struct Messages {
    buffer: Vec<u8>,
    /// Something else than RESP came, such as TLS. Nothing can be found any more.
    opaque: bool,
}

impl Messages {
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        if !self.opaque {
            self.buffer.extend_from_slice(bytes);
        }
    }

    /// The next complete message.
    pub(crate) fn pop(&mut self) -> Option<Message> {
        match skip(&self.buffer, 0) {
            Ok(end) => Some(Message(self.buffer.drain(..end).collect())),
            Err(Gap::Incomplete) => None,
            Err(Gap::NotResp) => {
                self.opaque = true;
                self.buffer.clear();
                None
            }
        }
    }
}

/// The bytes of one message.
#[derive(Debug)]
pub(crate) struct Message(Vec<u8>);

impl Message {
    /// Whether the server sent it on its own account and not as an answer.
    pub(crate) fn is_push(&self) -> bool {
        self.0.starts_with(b">")
    }

    /// The words of a command; bytes that are not UTF-8 are replaced.
    pub(crate) fn words(&self) -> Vec<String> {
        let mut words = Vec::new();
        let (_, mut at) = line(&self.0, 0).unwrap_or((&[], self.0.len()));
        while let Ok(end) = skip(&self.0, at) {
            let (_, start) = line(&self.0, at).expect("it was skipped");
            let word = &self.0[start..end.saturating_sub(CRLF.len()).max(start)];
            words.push(String::from_utf8_lossy(word).into_owned());
            at = end;
        }
        words
    }
}

/// Where the message that begins at `at` ends.
fn skip(bytes: &[u8], at: usize) -> Result<usize, Gap> {
    let (head, after) = line(bytes, at)?;
    let (&kind, count) = head.split_first().ok_or(Gap::NotResp)?;
    match kind {
        b'+' | b'-' | b':' | b'_' | b',' | b'#' | b'(' => Ok(after),
        b'$' | b'=' | b'!' => match length(count)? {
            None => Ok(after),
            Some(length) => {
                let end = after + length + CRLF.len();
                if end > bytes.len() {
                    Err(Gap::Incomplete)
                } else {
                    Ok(end)
                }
            }
        },
        b'*' | b'~' | b'>' => skip_many(bytes, after, length(count)?.unwrap_or(0)),
        b'%' => skip_many(bytes, after, 2 * length(count)?.unwrap_or(0)),
        // Attributes come before the value that they describe.
        b'|' => skip_many(bytes, after, 2 * length(count)?.unwrap_or(0) + 1),
        _ => Err(Gap::NotResp),
    }
}

fn skip_many(bytes: &[u8], at: usize, count: usize) -> Result<usize, Gap> {
    (0..count).try_fold(at, |at, _| skip(bytes, at))
}

/// The line that begins at `at`, and where the next one does.
fn line(bytes: &[u8], at: usize) -> Result<(&[u8], usize), Gap> {
    let rest = bytes.get(at..).unwrap_or_default();
    let length = rest
        .windows(CRLF.len())
        .position(|pair| pair == CRLF)
        .ok_or(Gap::Incomplete)?;
    Ok((&rest[..length], at + length + CRLF.len()))
}

/// A length, or `None` for the null of RESP2.
fn length(digits: &[u8]) -> Result<Option<usize>, Gap> {
    let text = std::str::from_utf8(digits).map_err(|_| Gap::NotResp)?;
    if text == "-1" {
        return Ok(None);
    }
    text.parse().map(Some).map_err(|_| Gap::NotResp)
}

#[derive(Debug)]
enum Gap {
    Incomplete,
    NotResp,
}

const CRLF: &[u8] = b"\r\n";
