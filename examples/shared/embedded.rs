use redlock_runtime::Redlock;

/// Nodes in memory are for trying things out.
pub(crate) fn warn_if_embedded(redlock: &Redlock) {
    if redlock.is_embedded() {
        eprintln!(
            "warning: locks hold in this process only; to lock between processes, set REDLOCK_NODES=redis://host1,redis://host2,redis://host3"
        );
    }
}
