use tokio::{select, signal};

/// Returns when the process is to stop: on Ctrl-C, and on the SIGTERM of Kubernetes, Docker and
/// systemd. A signal that comes early is not missed: it is noticed from the first poll on.
pub(crate) async fn stop_signal() {
    #[cfg(unix)]
    let terminated = async {
        let kind = signal::unix::SignalKind::terminate();
        let mut signals = signal::unix::signal(kind).expect("SIGTERM can be handled");
        signals.recv().await
    };
    #[cfg(not(unix))]
    let terminated = std::future::pending::<()>();
    select! {
        result = signal::ctrl_c() => result.expect("Ctrl-C can be handled"),
        _ = terminated => {}
    }
}
