//! The author of the record of a lease: it knows the request and the names of this process.

use std::path::Path;
use std::sync::{Arc, Mutex};

use tenure_core::internal::lock;
use tenure_core::{
    Asker, Error, Lease, LeaseId, LockContext, Mode, Request, Result, Timestamp, Token,
};
use tenure_os::{clock, platform};

use crate::lockfile::{Grant, RecordWriter, holder_line};
use crate::token_counter::TokenCounter;

/// The state that all record authors of a store or locker share.
pub(crate) struct RecordContext {
    /// The address of the store, for errors.
    url: String,
    /// The source of tokens. Without one, tokens are only bounded below by the clock.
    tokens: Option<TokenCounter>,
    /// The holder line of the last asker, since most requests come from the same one.
    last: Mutex<Option<CachedHolder>>,
}

struct CachedHolder {
    asker: Arc<Asker>,
    /// The process that has this line: a forked child has a line of its own.
    generation: u32,
    line: Arc<str>,
}

impl RecordContext {
    pub(crate) fn new(url: String, tokens: Option<TokenCounter>) -> Self {
        Self {
            url,
            tokens,
            last: Mutex::default(),
        }
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    fn holder_line(&self, asker: &Arc<Asker>) -> Result<Arc<str>> {
        let mut last = lock(&self.last);
        let generation = platform::fork_generation();
        if let Some(known) = last.as_ref()
            && Arc::ptr_eq(&known.asker, asker)
            && known.generation == generation
        {
            return Ok(known.line.clone());
        }
        let line = holder_line(asker, clock::boot_id()?, clock::process_start())?;
        *last = Some(CachedHolder {
            asker: asker.clone(),
            generation,
            line: line.clone(),
        });
        Ok(line)
    }
}

/// The author of one lease's record.
#[derive(Clone)]
pub(crate) struct RecordAuthor {
    record_context: Arc<RecordContext>,
    asker: Arc<Asker>,
    holder: Arc<str>,
    path: Arc<Path>,
    /// The grant is boxed, as the author is handed around during a wait.
    grant: Box<Grant>,
    granted: bool,
    /// The time when the last token was drawn; its record is written in the same moment.
    drawn: Option<Timestamp>,
}

impl RecordAuthor {
    pub(crate) fn new(
        record_context: &Arc<RecordContext>,
        request: Request,
        path: &Arc<Path>,
    ) -> Result<Self> {
        Ok(Self {
            record_context: record_context.clone(),
            holder: record_context.holder_line(&request.asker)?,
            asker: request.asker,
            path: path.clone(),
            grant: Box::new(Grant {
                lease: request.lease,
                resource: request.resource,
                mode: request.mode,
                token: Token::NONE,
                since: Timestamp::from_millis(0),
                heartbeat: None,
                purpose: request.purpose,
                metadata: request.metadata,
            }),
            granted: false,
            drawn: None,
        })
    }

    pub(crate) fn path(&self) -> &Arc<Path> {
        &self.path
    }

    /// Reuses the author for another lease of the same asker on the same path.
    pub(crate) fn reuse_for(&mut self, lease: LeaseId) {
        self.grant.lease = lease;
        self.granted = false;
    }

    /// Returns another author for the same lease.
    pub(crate) fn fresh_copy(&self) -> Self {
        Self {
            granted: false,
            drawn: None,
            ..self.clone()
        }
    }

    /// Fixes the time of the grant: later records keep it.
    pub(crate) fn mark_granted(&mut self) {
        self.granted = true;
    }

    /// Returns the lease as it was written last.
    pub(crate) fn lease(&self) -> Lease {
        Grant::clone(&self.grant).of(Asker::clone(&self.asker))
    }
}

impl RecordWriter for RecordAuthor {
    fn draw(&mut self, last: Token) -> Result<Token> {
        let now = clock::now();
        self.drawn = Some(now);
        if let Some(tokens) = &self.record_context.tokens {
            return tokens.draw(last, now);
        }
        let clock = u64::try_from(now.as_millis()).unwrap_or(0);
        let token = last.next(clock);
        token.ok_or_else(|| Error::Internal("tokens are used up".into()))
    }

    fn record(&mut self, token: Token, mode: Mode) -> (&Grant, &str) {
        let now = self.drawn.take().unwrap_or_else(clock::now);
        let grant = &mut *self.grant;
        grant.token = token;
        grant.mode = mode;
        if self.granted {
            grant.heartbeat = Some(now);
        } else {
            grant.since = now;
            grant.heartbeat = None;
        }
        (grant, &self.holder)
    }

    fn context(&self, mode: Mode) -> Box<LockContext> {
        let (resource, url) = (self.grant.resource.clone(), self.record_context.url());
        let location = self.path.display().to_string();
        Box::new(LockContext::new(resource, mode, url, location))
    }
}
