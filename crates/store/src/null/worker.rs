//! A thread of the null server: one epoll instance, and the connections assigned to it.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::Counters;
use super::connection::{Connection, MADE_BYTES, Next, Shared, Workbench};
use super::poll::{self, Interest, Poll, Watches};

/// Bytes per read from a socket.
const INPUT_BYTES: usize = 64 << 10;

/// Through which other threads reach a worker.
pub(super) struct Inbox {
    watches: Watches,
    sockets: Mutex<Vec<OwnedFd>>,
    pub(super) counters: Arc<Counters>,
}

impl Inbox {
    pub(super) fn new(poll: &Poll, counters: Arc<Counters>) -> Inbox {
        Inbox { watches: poll.watches().clone(), sockets: Mutex::default(), counters }
    }

    /// Gives a connection to the worker, which notices it when data arrives.
    fn give(&self, socket: OwnedFd) -> io::Result<()> {
        // Under the lock, so that the worker finds the socket when its first event comes.
        let mut sockets = self.sockets.lock().unwrap_or_else(PoisonError::into_inner);
        self.watches.add(&socket, Interest::Read)?;
        sockets.push(socket);
        Ok(())
    }
}

/// Serves the connections of one thread until `stop` becomes readable.
pub(super) fn serve(mut poll: Poll, shared: &Shared, inbox: &Inbox, stop: &OwnedFd) {
    let mut connections: Vec<Option<Box<Connection>>> = Vec::new();
    let (mut input, mut made) = (vec![0; INPUT_BYTES], vec![0; MADE_BYTES]);
    let counters = &*inbox.counters;
    let mut bench = Workbench { shared, counters, input: &mut input, made: &mut made };
    loop {
        let Ok(count) = poll.wait() else { return };
        for index in 0..count {
            let number = poll.event(index);
            if number == poll::number(stop) {
                return;
            }
            if connections.get(number).is_none_or(Option::is_none) {
                adopt(inbox, &mut connections);
            }
            let Some(Some(connection)) = connections.get_mut(number) else { continue };
            let next = connection.advance(&mut bench);
            let is_writing = next == Next::Write;
            if next == Next::Close {
                connections[number] = None;
                counters.close();
            } else if is_writing != connection.is_writing {
                connection.is_writing = is_writing;
                let interest = if is_writing { Interest::Write } else { Interest::Read };
                if poll.watches().change(connection.fd(), interest).is_err() {
                    connections[number] = None;
                    counters.close();
                }
            }
        }
    }
}

/// Takes over the connections that were assigned to this thread.
fn adopt(inbox: &Inbox, connections: &mut Vec<Option<Box<Connection>>>) {
    let mut sockets = inbox.sockets.lock().unwrap_or_else(PoisonError::into_inner);
    for socket in sockets.drain(..) {
        let number = poll::number(&socket);
        if connections.len() <= number {
            connections.resize_with(number + 1, || None);
        }
        connections[number] = Some(Box::new(Connection::new(socket)));
    }
}

/// Accepts connections and gives each to the thread with the fewest, until `stop` is readable.
pub(super) fn accept(
    listener: &std::net::TcpListener,
    mut poll: Poll,
    inboxes: &[Arc<Inbox>],
    stop: &OwnedFd,
) {
    loop {
        let Ok(count) = poll.wait() else { return };
        if (0..count).any(|index| poll.event(index) == poll::number(stop)) {
            return;
        }
        loop {
            let socket = match poll::accept(listener) {
                Ok(socket) => socket,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(_) => {
                    // No descriptor is left: connections wait in the backlog until others are
                    // closed.
                    std::thread::sleep(Duration::from_millis(20));
                    break;
                }
            };
            let Some(inbox) = inboxes.iter().min_by_key(|inbox| inbox.counters.open()) else {
                return;
            };
            inbox.counters.accept();
            if inbox.give(socket).is_err() {
                inbox.counters.close();
            }
        }
    }
}
