//! Calls of librados that only exist as blocking ones, run aside so that a load thread never waits.

use std::io;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::task::Poll;

use crate::reactor::Reactor;
use crate::transport::inbox::{Inbox, Place};

/// Runs `work` on a thread of its own and waits for what it gives back; at the task's deadline the
/// thread is left to itself.
///
/// # Errors
/// No thread could be started, or the deadline came first.
pub(super) async fn run<T: Send + 'static>(
    (inbox, place): (&Arc<Inbox>, Place),
    reactor: &Rc<Reactor>,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<T> {
    inbox.expect(place, reactor.current_task());
    let (word, result) = (Arc::clone(inbox), Arc::new(Mutex::new(None)));
    let theirs = Arc::clone(&result);
    std::thread::Builder::new().name("rados-errand".into()).spawn(move || {
        let value = work();
        *theirs.lock().expect("the lock is not poisoned") = Some(value);
        word.put(place);
    })?;
    std::future::poll_fn(|_| {
        let value = result.lock().expect("the lock is not poisoned").take();
        match value {
            Some(value) => Poll::Ready(Ok(value)),
            None if reactor.expired() => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            None => Poll::Pending,
        }
    })
    .await
}
