//! Certificates and keys that are renewed on disk.

use std::sync::{Arc, Mutex, PoisonError};

use rustls::ClientConfig;

use super::{problem::ConfigProblem, tls::Tls};
use crate::node::TlsConfig;

/// What rustls needs, made again when one of the files that it comes from has changed.
pub(super) struct Renewed {
    tls: Tls,
    last: Mutex<Made>,
}

struct Made {
    config: Arc<ClientConfig>,
    /// What stood in the files before they were read for it. So what changes meanwhile is a change.
    from: Vec<Vec<u8>>,
}

impl Renewed {
    pub(super) fn new(tls: Tls) -> Result<Self, ConfigProblem> {
        let last = Mutex::new(Made::new(&tls, tls.read_files()?)?);
        Ok(Self { tls, last })
    }
}

impl Made {
    fn new(tls: &Tls, from: Vec<Vec<u8>>) -> Result<Self, ConfigProblem> {
        let config = Arc::new(tls.client_config()?);
        Ok(Self { config, from })
    }
}

impl TlsConfig for Renewed {
    /// Files that cannot be used are an error, although those before them could: nobody would notice that
    /// the next start of the process fails.
    fn current(&self) -> Result<Arc<ClientConfig>, Arc<str>> {
        let text = |problem: ConfigProblem| Arc::from(problem.to_string());
        let from = self.tls.read_files().map_err(text)?;
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if last.from != from {
            *last = Made::new(&self.tls, from).map_err(text)?;
        }
        Ok(Arc::clone(&last.config))
    }
}
