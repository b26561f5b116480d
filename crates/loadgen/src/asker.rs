//! Sends single HTTP requests to a target unchanged, with the driver's signer and connections. This
//! is not a load: nothing is recorded, retried or verified.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::JoinHandle;

use crate::driver::{Client, Driver, Thread};
use crate::drivers::{self, Visitor};
use crate::error::Error;
use crate::transport::raw::{RawAnswer, RawRequest};
use crate::trial::Trial;

/// Sends requests to a target from its own thread, which keeps connections open between calls.
#[derive(Debug)]
pub struct Asker {
    jobs: Option<Sender<Job>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

enum Job {
    /// Requests to send concurrently, each over its own connection, with their timeout in
    /// nanoseconds.
    Ask(Vec<RawRequest>, u64, Sender<Result<Vec<RawAnswer>, Error>>),
    /// A request whose head the caller sends itself.
    Head(Box<RawRequest>, Sender<Result<Vec<u8>, Error>>),
}

impl Asker {
    /// Opens the target of a trial. Of the rest of the document, only the timeout matters.
    ///
    /// # Errors
    /// The driver cannot be opened, or the host cannot create a thread.
    pub fn open(trial: &Trial) -> Result<Self, Error> {
        let name = &trial.target.driver;
        drivers::visit(name, Open(trial))
            .unwrap_or_else(|| Err(Error::Trial(vec![format!("no driver \"{name}\"")])))
    }

    /// Sends requests concurrently, each over its own connection, and returns a receiver for the
    /// answers, in the order of the requests. The first connection is reused from the previous
    /// call.
    pub fn ask(
        &self,
        requests: Vec<RawRequest>,
        timeout_ns: u64,
    ) -> Receiver<Result<Vec<RawAnswer>, Error>> {
        let (sender, receiver) = mpsc::channel();
        self.give(Job::Ask(requests, timeout_ns, sender));
        receiver
    }

    /// Returns the head of a request, for a caller that sends it over its own connection.
    pub fn head(&self, request: RawRequest) -> Receiver<Result<Vec<u8>, Error>> {
        let (sender, receiver) = mpsc::channel();
        self.give(Job::Head(Box::new(request), sender));
        receiver
    }

    /// If the thread has ended, the job is dropped with its sender, so the caller's receiver
    /// reports that.
    fn give(&self, job: Job) {
        if let Some(jobs) = &self.jobs {
            let _ = jobs.send(job);
        }
    }
}

impl Drop for Asker {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Open<'a>(&'a Trial);

impl Visitor for Open<'_> {
    type Output = Result<Asker, Error>;

    fn visit<D: Driver>(self) -> Self::Output {
        let driver = Arc::new(D::open(self.0)?);
        let (sender, receiver) = mpsc::channel();
        let stop = Arc::new(AtomicBool::new(false));
        let stop_flag = Arc::clone(&stop);
        let thread = std::thread::Builder::new()
            .name("asker".to_owned())
            .spawn(move || serve(&driver, receiver, &stop_flag))
            .map_err(|source| Error::Host { what: "start a thread", source })?;
        Ok(Asker { jobs: Some(sender), stop, thread: Some(thread) })
    }
}

/// Executes jobs until the sender is gone.
fn serve<D: Driver>(driver: &Arc<D>, jobs: Receiver<Job>, stop: &AtomicBool) {
    let mut asking = match driver.thread() {
        Ok(thread) => Asking { driver, thread, clients: Vec::new() },
        // The first caller gets the error.
        Err(error) => return refuse(jobs, error),
    };
    for job in jobs {
        // Errors of sending are ignored: the caller may be gone.
        match job {
            Job::Ask(requests, timeout_ns, sender) => {
                let _ = sender.send(asking.ask(requests, timeout_ns, stop));
            }
            Job::Head(request, sender) => {
                let _ = sender.send(asking.head(&request));
            }
        }
    }
}

fn refuse(jobs: Receiver<Job>, error: Error) {
    match jobs.recv() {
        Ok(Job::Ask(.., sender)) => drop(sender.send(Err(error))),
        Ok(Job::Head(_, sender)) => drop(sender.send(Err(error))),
        Err(_) => {}
    }
}

struct Asking<'a, D: Driver> {
    driver: &'a Arc<D>,
    thread: D::Thread,
    clients: Vec<D::Client>,
}

impl<D: Driver> Asking<'_, D> {
    fn ask(
        &mut self,
        requests: Vec<RawRequest>,
        timeout_ns: u64,
        stop: &AtomicBool,
    ) -> Result<Vec<RawAnswer>, Error> {
        let count = requests.len();
        self.grow_to(count)?;
        let reactor = Rc::clone(self.thread.reactor());
        reactor.expect_timeouts_of(timeout_ns);
        let answers = Rc::new(RefCell::new(Vec::new()));
        answers.borrow_mut().resize_with(count, || None);
        let clients = self.clients.drain(..count).zip(requests).enumerate();
        for (index, (mut client, request)) in clients {
            let (inner, answers) = (Rc::clone(&reactor), Rc::clone(&answers));
            reactor.spawn(async move {
                inner.set_deadline(inner.now_ns() + timeout_ns);
                let answer = client.ask_raw(&request).await;
                answers.borrow_mut()[index] = Some((client, answer));
            });
        }
        reactor.run(stop).map_err(|source| Error::Host { what: "wait for events", source })?;
        let (mut clients, mut all) = (Vec::new(), Vec::new());
        for slot in answers.take() {
            let (client, answer) =
                slot.ok_or_else(|| Error::target("ask the target", "stopped"))?;
            clients.push(client);
            all.push(answer.map_err(|reason| Error::Trial(vec![reason]))?);
        }
        self.clients.splice(..0, clients);
        Ok(all)
    }

    fn head(&mut self, request: &RawRequest) -> Result<Vec<u8>, Error> {
        self.grow_to(1)?;
        self.clients[0].raw_head(request).map_err(|reason| Error::Trial(vec![reason]))
    }

    fn grow_to(&mut self, count: usize) -> Result<(), Error> {
        while self.clients.len() < count {
            let index = u32::try_from(self.clients.len()).expect("not so many");
            self.clients.push(self.driver.client(&self.thread, index)?);
        }
        Ok(())
    }
}
