//! Puts a copy of a directory in place, whole.

use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;

use tenure::records::Fence;
use tenure::{Error, Resource, Result};
use tenure_api::publish::{Manifests, Put};
use tenure_core::internal::lock;
use tenure_files::publish::PublishTarget;
use tenure_work::publish::{Progress, Request, check, new_id, publish, remove_leftover};

use super::lease::PublishLease;
use super::progress::CopyTeller;
use crate::{Caller, Handle, Service, WAIT_DEFAULT};

/// The largest number of files that a message names.
const NAMED_MAX: usize = 5;

impl Handle<Put> for Service {
    async fn handle(&self, request: Put, caller: &Caller) -> Result<Manifests> {
        let id = new_id();
        let publish_target = PublishTarget::new(&request.target, &id)?;
        check(&self.located().url, &request.source, &publish_target)?;
        let asked = request.wait.map(|wait| wait.0);
        let limit = self.limit(caller, asked, WAIT_DEFAULT, None)?;
        let resource = match request.resource {
            Some(resource) => resource,
            None => resource_of(&publish_target)?,
        };
        let keeper = self.locks_within(caller, limit, Some(&resource)).await?;
        keeper.records("publish")?;
        let session = caller.session();
        let asker = session.asker();
        let purpose = &request.op_type;
        let held = PublishLease::acquire(&keeper, session, &resource, purpose, limit, caller);
        let held = held.await?;
        let lease = held.lease();
        let request = Request {
            source: request.source,
            publish_target: &publish_target,
            id,
            op_type: request.op_type,
            fence: Fence {
                resource: lease.resource,
                token: lease.token,
                lease: Some(lease.lease),
            },
            asker,
            wait: limit.left(),
        };
        let progress = Arc::new(Progress {
            cancel: caller.cancel().clone(),
            ..Progress::default()
        });
        let teller = CopyTeller::start(&progress, caller);
        let published = publish(&keeper, &request, &progress).await;
        teller.end();
        held.release(caller).await;
        let manifest = published?;
        // The lock is released by now, so no other process waits for this. Recovery removes later
        // what cannot be removed now.
        if let Err(error) = remove_leftover(&keeper, &manifest, caller.owner()).await {
            let (word, tmp) = ("what was there before is left in", &manifest.tmp);
            caller.observer().word(&format!("{word} {tmp}: {error}"));
        }
        tell_unprivileged(&progress, caller);
        Ok(Manifests::new(vec![manifest]))
    }
}

fn resource_of(publish_target: &PublishTarget) -> Result<Resource> {
    let path = publish_target.target().as_os_str().as_bytes();
    Resource::new("file", path).map_err(|error| Error::BadInput(error.to_string()))
}

/// Tells a person which files lost setuid or setgid, and which lost their capabilities.
fn tell_unprivileged(progress: &Progress, caller: &Caller) {
    let lost = "setuid and setgid were dropped, as the copy has another owner";
    tell_paths(lost, &lock(&progress.unprivileged), caller);
    let lost = "file capabilities are not copied";
    tell_paths(lost, &lock(&progress.incapable), caller);
}

fn tell_paths(what: &str, paths: &[PathBuf], caller: &Caller) {
    let named = paths.iter().take(NAMED_MAX);
    let named: Vec<_> = named.map(|path| path.display().to_string()).collect();
    if named.is_empty() {
        return;
    }
    let more = match paths.len() - named.len() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let word = format!("{what}: {}{more}", named.join(", "));
    caller.observer().word(&word);
}
