//! The thread of a proxy: it accepts connections and obeys orders.

use std::{
    future,
    io::ErrorKind,
    net::{Ipv4Addr, Shutdown, SocketAddr},
    sync::mpsc as sync_mpsc,
    time::Duration,
};

use socket2::SockRef;
use tokio::{
    net::{TcpListener, TcpStream},
    runtime,
    sync::{mpsc, watch},
    task::JoinSet,
};

use super::{
    connection::{self, Link},
    mode::Mode,
    traffic::Ledger,
};
use crate::port::Port;

/// What the test wants; it waits until it is done.
pub(super) enum Order {
    Set(Mode),
    Forget,
    Reset,
    Quit,
}

/// Everything happens on one thread, so that an order takes effect between two steps of the
/// connections and never in the middle of one.
pub(super) struct Network {
    listen: Port,
    server: SocketAddr,
    mode: watch::Sender<Mode>,
    /// Those of connections that are forgotten.
    forgotten: Vec<watch::Sender<Mode>>,
    ledger: Ledger,
    listener: Option<TcpListener>,
    connections: JoinSet<()>,
}

impl Network {
    /// A network that does not listen yet; the first mode begins it.
    pub(super) fn new(listen: Port, server: u16, ledger: Ledger) -> Self {
        Self {
            listen,
            server: SocketAddr::from((Ipv4Addr::LOCALHOST, server)),
            mode: watch::Sender::default(),
            forgotten: Vec::new(),
            ledger,
            listener: None,
            connections: JoinSet::new(),
        }
    }

    pub(super) fn run(
        mut self,
        mut orders: mpsc::UnboundedReceiver<(Order, sync_mpsc::Sender<()>)>,
    ) {
        let runtime = runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime can be made");
        runtime.block_on(async {
            while let Some((order, done)) = self.serve_until(&mut orders).await {
                match order {
                    Order::Set(mode) => self.change(mode).await,
                    Order::Forget => self.forget(),
                    Order::Reset => self.reset().await,
                    Order::Quit => break,
                }
                // The test waits for it, unless it panics just now.
                let _ = done.send(());
            }
            self.hang_up().await;
        });
    }

    /// Serves connections until there is an order.
    async fn serve_until<T>(&mut self, orders: &mut mpsc::UnboundedReceiver<T>) -> Option<T> {
        loop {
            tokio::select! {
                biased;
                order = orders.recv() => return order,
                stream = accept(self.listener.as_ref()) => self.begin(stream),
                Some(_) = self.connections.join_next() => (),
            }
        }
    }

    fn begin(&mut self, client: TcpStream) {
        let link = Link {
            mode: self.mode.subscribe(),
            ledger: self.ledger.clone(),
        };
        self.ledger.accepted();
        connection::reset_on_drop(&client);
        if *self.mode.borrow() == Mode::ResetNew {
            return;
        }
        let server = self.server;
        self.connections.spawn(async move {
            connection::serve(client, server, link).await;
        });
    }

    async fn change(&mut self, mode: Mode) {
        self.ledger.mode_changed();
        self.mode.send_replace(mode);
        if mode == Mode::Refuse {
            self.hang_up().await;
        } else if self.listener.is_none() {
            self.listener = Some(self.bind().await);
        }
    }

    /// What is open hears of no mode any more.
    fn forget(&mut self) {
        let next = watch::Sender::new(*self.mode.borrow());
        let forgotten = std::mem::replace(&mut self.mode, next);
        forgotten.send_replace(Mode::BlackHole);
        self.forgotten.push(forgotten);
    }

    /// Resets what is open and listens no more.
    async fn hang_up(&mut self) {
        self.reset().await;
        if let Some(listener) = self.listener.take() {
            // Closing is not enough: if another thread starts a process just now, that has a copy
            // of the socket for a moment, which would go on listening.
            let _ = SockRef::from(&listener).shutdown(Shutdown::Read);
        }
    }

    /// Resets what is open, and also what the kernel has accepted and nobody has picked up.
    async fn reset(&mut self) {
        while let Some(stream) = self.listener.as_ref().and_then(accept_now) {
            drop(stream);
            self.ledger.accepted();
        }
        self.connections.shutdown().await;
    }

    async fn bind(&self) -> TcpListener {
        let port = self.listen.number();
        TcpListener::bind((Ipv4Addr::LOCALHOST, port))
            .await
            .unwrap_or_else(|error| panic!("the proxy cannot listen at port {port}: {error}"))
    }
}

async fn accept(listener: Option<&TcpListener>) -> TcpStream {
    let Some(listener) = listener else {
        return future::pending().await;
    };
    loop {
        match listener.accept().await {
            Ok((stream, _)) => return stream,
            // A client that has given up already is no failure of the listener.
            Err(_) => tokio::task::yield_now().await,
        }
    }
}

/// A connection that waits in the kernel, to be reset when dropped.
fn accept_now(listener: &TcpListener) -> Option<socket2::Socket> {
    loop {
        match SockRef::from(listener).accept() {
            Ok((socket, _)) => {
                // It fails for a connection that has ended already.
                let _ = socket.set_linger(Some(Duration::ZERO));
                return Some(socket);
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => return None,
            Err(_) => (),
        }
    }
}
