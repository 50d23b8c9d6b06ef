//! What the connections of a process are called on the servers, so that operators can tell whose a lock
//! is. The name has in it what every owner of that process begins with, so nothing has to be noted when a
//! lock is acquired.

use std::env;

use redlock_protocol::Process;

use crate::script::process_text;

/// The first part of each name.
const FAMILY: &str = "redlock";

/// Of a service or host; a name is sent with each connection, and listed for each.
const LONGEST_PART: usize = 64;

/// What a name says.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ClientName {
    /// As owners begin.
    pub(crate) process: String,
    pub(crate) service: String,
    pub(crate) host: String,
    pub(crate) pid: u32,
}

impl ClientName {
    /// Of this process: `client` is what it is to the nodes.
    pub(crate) fn new(client: Process, service: Option<&str>) -> Self {
        Self {
            process: process_text(client),
            service: self::service(service),
            host: part(&host()),
            pid: std::process::id(),
        }
    }

    pub(crate) fn parse(name: &str) -> Option<Self> {
        let parts: Vec<&str> = name.split(':').collect();
        let [FAMILY, process, service, host, pid] = parts[..] else {
            return None;
        };
        Some(Self {
            process: process.to_owned(),
            service: service.to_owned(),
            host: host.to_owned(),
            pid: pid.parse().ok()?,
        })
    }

    pub(crate) fn text(&self) -> String {
        let Self {
            process,
            service,
            host,
            pid,
        } = self;
        format!("{FAMILY}:{process}:{service}:{host}:{pid}")
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
            let name = ClientName::new(process, Some(service));
            assert_eq!(name.process, "67e55044-10b1-426f");
            assert!(name.service.starts_with(part), "{name:?}");
            assert!(
                name.text().chars().all(|it| it.is_ascii_graphic()),
                "{name:?}"
            );
            assert_eq!(ClientName::parse(&name.text()), Some(name));
        }
        let long = ClientName::new(process, Some(&"x".repeat(1_000)));
        assert_eq!(long.service.len(), LONGEST_PART);
        assert!(!ClientName::new(process, None).service.is_empty());
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
            assert_eq!(ClientName::parse(name), None, "{name}");
        }
    }
}
