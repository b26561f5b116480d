//! Namespaces as buckets: readied and marked before a load, swept after it.

use std::ffi::c_int;
use std::sync::Arc;

use super::call::Call;
use super::client::RadosClient;
use super::connection::PoolContext;
use super::errand;
use super::library::kernel_text;
use crate::drivers::BucketState;
use crate::error::Error;

/// The object that marks a namespace as ours.
const MARK: &str = ".loadstone-mark";
const MARK_CONTENT: &[u8] = b"written by loadstone";

/// Names that are looked at before what is ours among them is removed.
const NAMES_AT_ONCE: usize = 10_000;

/// What a look into a namespace has found.
#[derive(Default)]
struct Look {
    ours: Vec<String>,
    others: u64,
    /// The first one that is not ours.
    stranger: Option<String>,
}

/// Makes sure that a namespace may be written to, and marks it if it is empty.
pub(super) async fn ready(
    client: &mut RadosClient,
    bucket: &str,
    allow_foreign: bool,
) -> Result<BucketState, Error> {
    let place = place(client, bucket);
    let context = open(client, bucket)?;
    if has_mark(client, &context, &place).await? {
        return Ok(BucketState::Ours);
    }
    let found = look(client, &context, &place, 1).await?;
    let first = found.ours.into_iter().next().or(found.stranger);
    if let Some(name) = &first {
        if allow_foreign {
            return Ok(BucketState::Foreign);
        }
        let what = format!("look into {place}");
        return Err(Error::target(what, format!("it holds \"{name}\" and no mark of ours"))
            .with_hint("name another bucket prefix, or pass --allow-foreign for this target"));
    }
    let call = Call::WriteFull { length: MARK_CONTENT.len() };
    client
        .ask(context.context, MARK, call, MARK_CONTENT)
        .await
        .map_err(|number| refusal(format!("mark {place}"), number))?;
    Ok(BucketState::Created)
}

/// Removes what is the dataset's from a namespace that carries our mark; then, if nothing else is
/// in it, the mark.
pub(super) async fn sweep(client: &mut RadosClient, bucket: &str) -> Result<(u64, bool), Error> {
    let place = place(client, bucket);
    let context = open(client, bucket)?;
    if !has_mark(client, &context, &place).await? {
        let found = look(client, &context, &place, 1).await?;
        return Ok((0, found.ours.is_empty() && found.others == 0));
    }
    let mut swept = 0;
    loop {
        let found = look(client, &context, &place, NAMES_AT_ONCE).await?;
        for name in &found.ours {
            renew_deadline(client);
            match client.ask(context.context, name, Call::Remove, &[]).await {
                // Gone meanwhile is as good.
                Ok(()) | Err(libc::ENOENT) => swept += 1,
                Err(number) => {
                    return Err(refusal(format!("remove \"{name}\" from {place}"), number));
                }
            }
        }
        if found.ours.len() >= NAMES_AT_ONCE {
            continue;
        }
        if found.others == 0 {
            renew_deadline(client);
            client
                .ask(context.context, MARK, Call::Remove, &[])
                .await
                .map_err(|number| refusal(format!("remove our mark from {place}"), number))?;
        }
        return Ok((swept, found.others == 0));
    }
}

fn place(client: &RadosClient, bucket: &str) -> String {
    format!("namespace \"{bucket}\" of pool \"{}\"", client.rados.access.pool)
}

fn open(client: &mut RadosClient, bucket: &str) -> Result<Arc<PoolContext>, Error> {
    let context = client.rados.instances[client.instance].connection.namespace(bucket);
    let context =
        context.map_err(|number| refusal(format!("open {}", place(client, bucket)), number))?;
    let context = Arc::new(context);
    // It must be open as long as a request may be in flight on it.
    client.contexts.push(Arc::clone(&context));
    Ok(context)
}

fn refusal(what: String, number: c_int) -> Error {
    let error = Error::target(what, kernel_text(number));
    match number {
        libc::ETIMEDOUT => {
            error.with_hint("are the pool's placement groups active? see: ceph health detail")
        }
        libc::EPERM | libc::EACCES => error.with_hint(
            "the user's capabilities do not allow this: ceph auth get; loadstone needs \"osd\" \
             capabilities rwx on the pool",
        ),
        libc::ENOSPC | libc::EDQUOT => error.with_hint("the pool is full: ceph df detail"),
        _ => error,
    }
}

async fn has_mark(
    client: &mut RadosClient,
    context: &PoolContext,
    place: &str,
) -> Result<bool, Error> {
    match client.ask(context.context, MARK, Call::Stat, &[]).await {
        Ok(()) => Ok(true),
        Err(libc::ENOENT) => Ok(false),
        Err(number) => Err(refusal(format!("look for our mark in {place}"), number)),
    }
}

/// Looks into a namespace until so many names of ours, or a stranger and the end, were found.
async fn look(
    client: &mut RadosClient,
    context: &Arc<PoolContext>,
    place: &str,
    ours_max: usize,
) -> Result<Look, Error> {
    renew_deadline(client);
    let (rados, context) = (Arc::clone(&client.rados), Arc::clone(context));
    let errand = errand::run((&client.inbox, client.place), &client.reactor, move || {
        let (mut names, mut found) = (context.list()?, Look::default());
        while let Some(name) = names.next()? {
            if name == MARK {
                continue;
            }
            if rados.dataset.index_of(&name).is_some() {
                found.ours.push(name);
            } else {
                found.others += 1;
                found.stranger.get_or_insert(name);
            }
            let is_enough = found.ours.len() >= ours_max || (ours_max == 1 && found.others > 0);
            if is_enough {
                break;
            }
        }
        drop(names);
        Ok::<Look, c_int>(found)
    });
    let what = || format!("list {place}");
    match errand.await {
        Ok(found) => found.map_err(|number| refusal(what(), number)),
        Err(error) if error.kind() == std::io::ErrorKind::TimedOut => {
            Err(refusal(what(), libc::ETIMEDOUT))
        }
        Err(source) => Err(Error::Host { what: "start a thread", source }),
    }
}

/// Each step of a long piece of work may take as long as a request.
fn renew_deadline(client: &RadosClient) {
    client.reactor.set_deadline(client.reactor.now_ns() + client.rados.timeout_ns);
}
