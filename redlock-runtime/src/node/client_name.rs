//! What the connections of a process are called on the servers, so that operators can tell whose a lock
//! is. The name has in it what every owner of that process begins with, so nothing has to be noted when a
//! lock is acquired.

use std::{env, time::Duration};

use redlock_protocol::Process;

use crate::script::process_text;

/// The first part of each name.
const FAMILY: &str = "redlock";

/// Of a service or host; a name is sent with each connection, and listed for each.
const LONGEST_PART: usize = 64;

/// A process that uses this library, as its connections are named on the nodes.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientProcess {
    /// The text with which each value of this process begins.
    pub id: String,
    /// The process's [service](crate::Builder::service).
    pub service: String,
    /// The name of the machine or container that the process runs on.
    pub host: String,
    /// The process id on that host.
    pub pid: u32,
    /// The address from which the process is connected, as one of the nodes sees it.
    pub address: Option<String>,
    /// How long the oldest connection of the process has lasted, in whole seconds. The process has held no lock for
    /// longer, unless all its connections broke meanwhile. The nodes do not record when a lock was acquired.
    pub connected: Option<Duration>,
    /// Whether this process is the caller's, and uses the same node set.
    pub is_this: bool,
}

impl ClientProcess {
    /// This process: `client` is what it is to the nodes.
    pub(crate) fn this(client: Process, service: Option<&str>) -> Self {
        Self {
            id: process_text(client),
            service: self::service(service),
            host: part(&host()),
            pid: std::process::id(),
            address: None,
            connected: None,
            is_this: true,
        }
    }

    pub(crate) fn parse(name: &str) -> Option<Self> {
        let parts: Vec<&str> = name.split(':').collect();
        let [FAMILY, id, service, host, pid] = parts[..] else {
            return None;
        };
        Some(Self {
            id: id.to_owned(),
            service: service.to_owned(),
            host: host.to_owned(),
            pid: pid.parse().ok()?,
            address: None,
            connected: None,
            is_this: false,
        })
    }

    /// The name of its connections.
    pub(crate) fn name(&self) -> String {
        let (id, service, host, pid) = (&self.id, &self.service, &self.host, self.pid);
        format!("{FAMILY}:{id}:{service}:{host}:{pid}")
    }
}

/// What a process is called if it is given this name, or none.
pub(crate) fn service(name: Option<&str>) -> String {
    part(&name.map_or_else(executable, str::to_owned))
}

/// As servers take it: without spaces and special characters.
fn part(text: &str) -> String {
    let is_fit = |character: char| character.is_ascii_graphic() && character != ':';
    let fit = text.chars().take(LONGEST_PART);
    let fit: String = fit.map(|it| if is_fit(it) { it } else { '_' }).collect();
    match fit.is_empty() {
        true => "-".to_owned(),
        false => fit,
    }
}

fn executable() -> String {
    let path = env::current_exe().ok();
    let name = path.as_ref().and_then(|path| path.file_stem());
    name.map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default()
}

fn host() -> String {
    #[cfg(unix)]
    let name = rustix::system::uname()
        .nodename()
        .to_string_lossy()
        .into_owned();
    #[cfg(not(unix))]
    let name = env::var("COMPUTERNAME").unwrap_or_default();
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_word_that_says_whose_it_is() {
        let process = Process(0x67e5_5044_10b1_426f);
        for (service, part) in [
            ("orders", "orders"),
            ("my orders: été", "my_orders__"),
            ("", "-"),
        ] {
            let this = ClientProcess::this(process, Some(service));
            assert_eq!(this.id, "67e55044-10b1-426f");
            assert!(this.service.starts_with(part), "{this:?}");
            let name = this.name();
            assert!(name.chars().all(|it| it.is_ascii_graphic()), "{name}");
            let is_this = false;
            let named = ClientProcess { is_this, ..this };
            assert_eq!(ClientProcess::parse(&name), Some(named));
        }
        let long = ClientProcess::this(process, Some(&"x".repeat(1_000)));
        assert_eq!(long.service.len(), LONGEST_PART);
        assert!(!ClientProcess::this(process, None).service.is_empty());
    }

    #[test]
    fn names_of_others_say_nothing() {
        for name in [
            "",
            "redlock",
            "redlock:a:b:c:x",
            "redlock:a:b:c:1:2",
            "app:a:b:c:1",
        ] {
            assert_eq!(ClientProcess::parse(name), None, "{name}");
        }
    }
}
