//! A network in front of a server that can be spoiled while it is in use.

mod connection;
mod mode;
mod network;
mod traffic;

use std::{
    sync::mpsc as sync_mpsc,
    thread::{self, JoinHandle},
    time::Duration,
};

use tokio::sync::mpsc;

pub use self::{
    mode::Mode,
    traffic::{Command, Traffic},
};
use self::{
    network::{Network, Order},
    traffic::Ledger,
};
use crate::{Server, port::Port};

/// A TCP proxy in front of a [`Server`], in the [`Mode`] set last; at first [`Mode::Pass`].
///
/// A change of mode is in force for all connections when the method that makes it returns: whatever
/// arrives at the proxy after that meets the new mode. A connection of which bytes were swallowed
/// stays silent in that direction even in a later mode, since the rest would be garbage to the
/// other side; only its end gets through. Bytes that were held are not lost; a mode that passes
/// lets them flow.
///
/// The server may be killed and restarted behind the proxy. Dropping the proxy resets all its
/// connections.
#[must_use]
pub struct Proxy {
    url: String,
    ledger: Ledger,
    orders: mpsc::UnboundedSender<(Order, sync_mpsc::Sender<()>)>,
    thread: Option<JoinHandle<()>>,
    port: u16,
}

impl Proxy {
    /// Starts a proxy in front of `server`.
    pub fn in_front_of(server: &Server) -> Self {
        let listen = Port::reserve();
        let port = listen.number();
        let ledger = Ledger::default();
        let (orders, inbox) = mpsc::unbounded_channel();
        let network = Network::new(listen, server.port(), ledger.clone());
        let thread = thread::Builder::new()
            .name(format!("proxy-{port}"))
            .spawn(move || network.run(inbox))
            .expect("a thread can be started");
        let proxy = Self {
            url: server.url_at(port),
            ledger,
            orders,
            thread: Some(thread),
            port,
        };
        // It listens when this returns.
        proxy.pass();
        proxy
    }

    /// The URL of the server by way of the proxy.
    pub fn url(&self) -> String {
        self.url.clone()
    }

    /// The port at which the proxy listens.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Changes the mode.
    pub fn set(&self, mode: Mode) {
        self.order(Order::Set(mode));
    }

    /// [`Mode::Pass`]: everything gets through, beginning with what was held.
    pub fn pass(&self) {
        self.set(Mode::Pass);
    }

    /// [`Mode::BlackHole`].
    pub fn black_hole(&self) {
        self.set(Mode::BlackHole);
    }

    /// [`Mode::HoldRequests`].
    pub fn hold_requests(&self) {
        self.set(Mode::HoldRequests);
    }

    /// [`Mode::HoldReplies`].
    pub fn hold_replies(&self) {
        self.set(Mode::HoldReplies);
    }

    /// [`Mode::Delay`].
    pub fn delay(&self, requests: Duration, replies: Duration) {
        self.set(Mode::Delay { requests, replies });
    }

    /// [`Mode::Refuse`].
    pub fn refuse(&self) {
        self.set(Mode::Refuse);
    }

    /// From now on nothing gets through over the connections that there are, and neither side is told, as by a
    /// firewall after a while without traffic. The mode is that of new ones.
    pub fn forget(&self) {
        self.order(Order::Forget);
    }

    /// Closes all connections with RST, in both directions, once; the mode stays.
    pub fn reset(&self) {
        self.order(Order::Reset);
    }

    /// What has come by so far.
    pub fn traffic(&self) -> Traffic {
        self.ledger.read(Traffic::clone)
    }

    /// Begins a new count: forgets commands and connections.
    pub fn clear(&self) {
        self.ledger.clear();
    }

    /// Waits until the traffic is as `check` wants it; `what` says so in the failure.
    #[track_caller]
    pub fn await_until<F>(&self, what: &str, check: F) -> impl Future<Output = ()> + Send + use<F>
    where
        F: Fn(&Traffic) -> bool + Send + 'static,
    {
        self.ledger.wait_async(what, check)
    }

    /// Waits until at least `count` commands named `name` have arrived from clients.
    #[track_caller]
    pub fn await_command(
        &self,
        name: &str,
        count: usize,
    ) -> impl Future<Output = ()> + Send + use<> {
        let what = format!("{count} times {name}");
        let name = name.to_owned();
        self.await_until(&what, move |traffic| traffic.count(&name) >= count)
    }

    /// Waits until at least `count` replies are held, so that the server has done what they
    /// report and the client does not know.
    #[track_caller]
    pub fn await_held_replies(&self, count: usize) -> impl Future<Output = ()> + Send + use<> {
        self.await_until("held replies", move |traffic| traffic.held_replies >= count)
    }

    fn order(&self, order: Order) {
        let (done, is_done) = sync_mpsc::channel();
        self.orders
            .send((order, done))
            .expect("the thread of the proxy runs");
        is_done.recv().expect("the thread of the proxy runs");
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        // It may have panicked, which the test has seen or does not mind.
        let (done, _) = sync_mpsc::channel();
        let _ = self.orders.send((Order::Quit, done));
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
