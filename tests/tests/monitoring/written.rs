//! What subscribers that people use write of an event.

use std::{
    io,
    sync::{Arc, Mutex},
};

use redlock_runtime::Redlock;
use redlock_tests::Cluster;
use tracing_subscriber::fmt::MakeWriter;

const NAME: &str = "redlock.start.even_number";

#[derive(Clone, Default)]
struct Written(Arc<Mutex<Vec<u8>>>);

impl io::Write for Written {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Written {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}

impl Written {
    /// The line with this event, of two nodes.
    async fn line(&self) -> String {
        let cluster = Cluster::start(2);
        let builder = Redlock::builder().nodes(cluster.urls());
        let _redlock = builder.build().await.unwrap();
        let text = String::from_utf8(self.0.lock().unwrap().clone()).unwrap();
        let line = text.lines().find(|line| line.contains("2 nodes"));
        line.unwrap_or_else(|| panic!("{text}")).to_owned()
    }
}

#[tokio::test]
async fn plain_lines_have_the_name_of_the_event() {
    let written = Written::default();
    let subscriber = tracing_subscriber::fmt()
        .with_ansi(false)
        .with_writer(written.clone());
    let _here = tracing::subscriber::set_default(subscriber.finish());
    let line = written.line().await;
    assert!(line.contains(&format!("event=\"{NAME}\"")), "{line}");
}

#[tokio::test]
async fn json_has_the_name_of_the_event_in_a_field() {
    let written = Written::default();
    let subscriber = tracing_subscriber::fmt()
        .json()
        .with_writer(written.clone());
    let _here = tracing::subscriber::set_default(subscriber.finish());
    let line: serde_json::Value = serde_json::from_str(&written.line().await).unwrap();
    assert_eq!(line["fields"]["event"], NAME, "{line}");
}
