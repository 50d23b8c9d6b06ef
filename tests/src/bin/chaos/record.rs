//! The record: a file to which all processes append lines, each with the time of the one monotonic clock of
//! the machine.

use std::{
    collections::BTreeMap,
    fs::{File, OpenOptions},
    io::Write,
    path::Path,
};

use rustix::time::{ClockId, clock_gettime};

use crate::plan::Target;

/// Microseconds.
pub(crate) fn now() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec.unsigned_abs() * 1_000_000 + time.tv_nsec.unsigned_abs() / 1_000
}

pub(crate) struct Record(File);

impl Record {
    pub(crate) fn open(path: &Path) -> Self {
        let file = OpenOptions::new().create(true).append(true).open(path);
        Self(file.expect("the record can be opened"))
    }

    /// One write, so that lines of several processes do not mix, and a killed process leaves no half of one.
    pub(crate) fn line(&self, at: u64, text: &str) {
        let line = format!("{at} {}\n", text.replace('\n', " "));
        (&self.0)
            .write_all(line.as_bytes())
            .expect("the record takes lines");
    }
}

/// What a lock excludes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Exclusive,
    Shared,
    Permit,
}

/// A call for a lock, and the section that it led to.
#[derive(Clone, Debug)]
pub(crate) struct Section {
    pub(crate) client: usize,
    pub(crate) kind: String,
    pub(crate) keys: Vec<String>,
    pub(crate) mode: Mode,
    /// In microseconds, how long the call may wait for the lock.
    pub(crate) wait: u64,
    pub(crate) asked: u64,
    pub(crate) entered: Option<u64>,
    /// What was left of the lease then.
    pub(crate) remaining: u64,
    pub(crate) token: u64,
    /// When the body last found that it holds the lock; it has looked at the clock before.
    pub(crate) last: u64,
    /// When the body was told that it does not.
    pub(crate) told: Option<u64>,
    pub(crate) ended: Option<u64>,
    pub(crate) outcome: String,
}

/// A fault that has struck.
#[derive(Clone, Debug)]
pub(crate) struct Fault {
    pub(crate) kind: String,
    pub(crate) target: Target,
    pub(crate) from: u64,
    pub(crate) until: u64,
    /// How many locks were held on the node, and how many requests came while it lasted.
    pub(crate) met: u64,
    pub(crate) is_effective: bool,
}

/// What a process used at a time: kilobytes of memory, open descriptors, threads, and of a server its keys, and the
/// fields of those that are not locks.
pub(crate) type Usage = Vec<u64>;

/// All that was recorded, by what it is about.
#[derive(Debug, Default)]
pub(crate) struct History {
    pub(crate) begun: u64,
    pub(crate) sections: Vec<Section>,
    pub(crate) faults: Vec<Fault>,
    /// What a client said of a node, and since when.
    pub(crate) states: Vec<(u64, usize, usize, String)>,
    /// Of each life of a process.
    pub(crate) usage: BTreeMap<(String, u64), Vec<Usage>>,
    pub(crate) panics: Vec<(u64, String)>,
    /// When a client was not scheduled, also because a fault had stopped it.
    pub(crate) slow: Vec<(usize, u64, u64)>,
}

impl History {
    /// # Panics
    ///
    /// If a line is not what this program writes.
    pub(crate) fn read(text: &str) -> Self {
        let mut history = Self::default();
        let mut places = BTreeMap::new();
        for (number, line) in text.lines().enumerate() {
            history
                .take(line, &mut places)
                .unwrap_or_else(|| panic!("line {number} of the record: {line:?}"));
        }
        history.end_killed();
        history
    }

    /// What a killed client was about ended with it.
    fn end_killed(&mut self) {
        for section in &mut self.sections {
            let kills = self.faults.iter().filter(|fault| {
                let is_his = fault.target == Target::Client(section.client);
                is_his && fault.kind == "client killed" && fault.from >= section.last
            });
            if section.ended.is_none() {
                section.ended = kills.map(|fault| fault.from).min();
                section.outcome = "killed".to_owned();
            }
        }
    }

    fn take(&mut self, line: &str, places: &mut BTreeMap<String, usize>) -> Option<()> {
        let words: Vec<&str> = line.split(' ').collect();
        let at: u64 = words[0].parse().ok()?;
        let count = |place: usize| words.get(place)?.parse::<u64>().ok();
        match words[1] {
            "begin" => self.begun = at,
            "ask" => {
                let mode = match words[5] {
                    "exclusive" => Mode::Exclusive,
                    "shared" => Mode::Shared,
                    _ => Mode::Permit,
                };
                let client = words[2].split('.').next()?.parse().ok()?;
                places.insert(words[2].to_owned(), self.sections.len());
                self.sections.push(Section {
                    client,
                    kind: words[3].to_owned(),
                    keys: words[4].split(',').map(str::to_owned).collect(),
                    mode,
                    wait: count(6)?,
                    asked: at,
                    entered: None,
                    remaining: 0,
                    token: 0,
                    last: at,
                    told: None,
                    ended: None,
                    outcome: String::new(),
                });
            }
            "fault" => self.faults.push(Fault {
                kind: words[2].replace('_', " "),
                target: target(words[3])?,
                from: at,
                until: count(4)?,
                met: count(5)?,
                is_effective: false,
            }),
            "state" => {
                let state = (at, count(2)? as usize, count(3)? as usize, words[4].into());
                self.states.push(state);
            }
            "use" => {
                let life = (words[2].to_owned(), count(3)?);
                let used: Option<Usage> = (4..words.len()).map(count).collect();
                self.usage.entry(life).or_default().push(used?);
            }
            "slow" => self.slow.push((count(2)? as usize, count(3)?, at)),
            "panic" => self.panics.push((at, words[2..].join(" "))),
            word => {
                let section = self.sections.get_mut(*places.get(words[2])?)?;
                match word {
                    "in" => {
                        section.entered = Some(at);
                        section.last = at;
                        (section.token, section.remaining) = (count(3)?, count(4)?);
                    }
                    "at" => section.last = at,
                    "told" => section.told = Some(at),
                    "end" => {
                        section.ended = Some(at);
                        section.outcome = words[3..].join(" ");
                    }
                    _ => return None,
                }
            }
        }
        Some(())
    }
}

/// `n3` is a node, `c2` a client, and `c2n3` the way between them.
fn target(word: &str) -> Option<Target> {
    let number = |digits: &str| digits.parse().ok();
    if let Some(node) = word.strip_prefix('n') {
        return Some(Target::Node(number(node)?));
    }
    let client = word.strip_prefix('c')?;
    Some(match client.split_once('n') {
        Some((client, node)) => Target::Link(number(client)?, number(node)?),
        None => Target::Client(number(client)?),
    })
}

pub(crate) fn word(target: Target) -> String {
    match target {
        Target::Node(node) => format!("n{node}"),
        Target::Client(client) => format!("c{client}"),
        Target::Link(client, node) => format!("c{client}n{node}"),
    }
}
