//! A subscriber of the whole process: events are written on whichever thread is at work.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::{
        Arc, LazyLock, Mutex, MutexGuard,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use redlock_tests::{Cluster, PATIENCE};
use tokio::{sync::Notify, time::timeout};
use tracing::{
    Event, Metadata, Subscriber,
    field::{Field, Visit},
    span::{Attributes, Id, Record},
};

use crate::page::Kind;

#[derive(Clone, Default)]
pub(crate) struct Heard(Arc<Shared>);

#[derive(Default)]
struct Shared {
    heard: Mutex<All>,
    changed: Notify,
    last_span: AtomicU64,
}

#[derive(Default)]
struct All {
    events: Vec<Item>,
    /// In the order of their beginnings.
    spans: BTreeMap<u64, Item>,
    entered: Vec<(std::thread::ThreadId, u64)>,
    parent_of_the_body: Option<u64>,
}

struct Item {
    kind: Kind,
    values: BTreeMap<String, String>,
}

/// What is heard of one node set.
pub(crate) struct OfSet<'a>(&'a Heard, String);

impl Heard {
    pub(crate) fn install() -> Self {
        static ONE: LazyLock<Heard> = LazyLock::new(|| {
            let heard = Heard::default();
            tracing::subscriber::set_global_default(heard.clone()).unwrap();
            heard
        });
        ONE.clone()
    }

    pub(crate) fn of(&self, cluster: &Cluster) -> OfSet<'_> {
        self.of_set(cluster.iter().map(|node| node.port()))
    }

    pub(crate) fn of_set(&self, ports: impl IntoIterator<Item = u16>) -> OfSet<'_> {
        let addresses = ports.into_iter().map(|port| format!("127.0.0.1:{port}"));
        OfSet(self, addresses.collect::<Vec<_>>().join(","))
    }

    /// Waits for an event with this text.
    pub(crate) async fn until(&self, name: &str, text: &str) {
        let is_it = |item: &Item| item.kind.name == name && item.message().contains(text);
        self.when(name, |all| all.events.iter().any(is_it)).await;
    }

    /// How many events have names that begin like this, and this text.
    pub(crate) fn count(&self, name: &str, text: &str) -> usize {
        let is_it =
            |item: &&Item| item.kind.name.starts_with(name) && item.message().contains(text);
        self.all().events.iter().filter(is_it).count()
    }

    async fn when(&self, what: &str, is_so: impl Fn(&All) -> bool) {
        let waiting = async {
            loop {
                let changed = self.0.changed.notified();
                if is_so(&self.all()) {
                    return;
                }
                changed.await;
            }
        };
        let waited = timeout(PATIENCE, waiting).await;
        waited.unwrap_or_else(|_| panic!("waited in vain for {what}"));
    }

    pub(crate) fn kinds(&self) -> BTreeSet<Kind> {
        let all = self.all();
        all.events.iter().map(|item| item.kind.clone()).collect()
    }

    pub(crate) fn span_kinds(&self) -> BTreeSet<Kind> {
        let all = self.all();
        all.spans.values().map(|item| item.kind.clone()).collect()
    }

    pub(crate) fn outcomes(&self) -> Vec<(String, String)> {
        let all = self.all();
        let outcome =
            |item: &Item| Some((item.kind.name.clone(), item.values.get("outcome")?.clone()));
        all.spans.values().filter_map(outcome).collect()
    }

    pub(crate) fn parent_of_the_body(&self) -> String {
        let all = self.all();
        let item = &all.spans[&all.parent_of_the_body.expect("a body in a span")];
        format!("{} {}", item.kind.name, item.values["key"])
    }

    fn all(&self) -> MutexGuard<'_, All> {
        self.0.heard.lock().unwrap()
    }
}

impl OfSet<'_> {
    pub(crate) async fn until(&self, name: &str) {
        let is_it = |item: &Item| item.kind.name == name && item.is_of(&self.1);
        self.0.when(name, |all| all.events.iter().any(is_it)).await;
    }

    /// Whether there has been such an event, at once or in a while.
    pub(crate) async fn soon(&self, name: &str) -> bool {
        timeout(Duration::from_millis(100), self.until(name))
            .await
            .is_ok()
    }

    pub(crate) fn events(&self) -> Vec<String> {
        let all = self.0.all();
        let events = all.events.iter().filter(|item| item.is_of(&self.1));
        events.map(|item| item.kind.name.clone()).collect()
    }

    /// Name, key and outcome.
    pub(crate) fn spans(&self) -> Vec<String> {
        let all = self.0.all();
        let spans = all.spans.values().filter(|item| item.is_of(&self.1));
        let text = |item: &Item| {
            let value = |name: &str| item.values.get(name).map_or("none", String::as_str);
            assert!(value("node_set") == self.1);
            format!("{} {} {}", item.kind.name, value("key"), value("outcome"))
        };
        spans.map(text).collect()
    }
}

impl Item {
    fn new(metadata: &Metadata<'_>) -> Self {
        let names = metadata
            .fields()
            .iter()
            .map(|field| field.name().to_owned());
        let kind = Kind {
            name: metadata.name().to_owned(),
            level: metadata.level().to_string(),
            fields: names
                .filter(|name| !["message", "event"].contains(&&**name))
                .collect(),
        };
        Self {
            kind,
            values: BTreeMap::new(),
        }
    }

    fn message(&self) -> &str {
        self.values.get("message").map_or("", String::as_str)
    }

    fn is_of(&self, node_set: &str) -> bool {
        self.values
            .get("node_set")
            .is_some_and(|set| set == node_set)
    }
}

impl Visit for Item {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let (name, value) = (field.name().to_owned(), format!("{value:?}"));
        self.values.insert(name, value);
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.values
            .insert(field.name().to_owned(), value.to_owned());
    }
}

impl Subscriber for Heard {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("redlock_runtime")
    }

    fn new_span(&self, attributes: &Attributes<'_>) -> Id {
        let id = self.0.last_span.fetch_add(1, Ordering::SeqCst) + 1;
        let mut item = Item::new(attributes.metadata());
        attributes.record(&mut item);
        self.all().spans.insert(id, item);
        Id::from_u64(id)
    }

    fn record(&self, span: &Id, values: &Record<'_>) {
        if let Some(item) = self.all().spans.get_mut(&span.into_u64()) {
            values.record(item);
        }
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut all = self.all();
        if event.metadata().target() != "redlock_runtime" {
            let here = std::thread::current().id();
            let entered = all.entered.iter().rev();
            let span = entered.clone().find(|(thread, _)| *thread == here);
            all.parent_of_the_body = span.map(|(_, span)| *span);
            return;
        }
        assert!(event.is_root(), "an event has no parent");
        let mut item = Item::new(event.metadata());
        event.record(&mut item);
        assert_eq!(item.values.get("event"), Some(&item.kind.name));
        all.events.push(item);
        drop(all);
        self.0.changed.notify_waiters();
    }

    fn enter(&self, span: &Id) {
        let here = std::thread::current().id();
        self.all().entered.push((here, span.into_u64()));
    }

    fn exit(&self, span: &Id) {
        let here = (std::thread::current().id(), span.into_u64());
        let mut all = self.all();
        let place = all.entered.iter().rposition(|entered| *entered == here);
        all.entered.remove(place.expect("it was entered"));
    }
}
