//! Whether the locks around a write are still held, as far as their tokens tell.
//!
//! A token that was named is remembered by the document, and checked in the store where that is
//! there; the document's own memory fences where it is not. The tokens of the `run`s around this
//! command are checked in their stores, which must be there. Asking makes no store.

use std::cell::{Cell, RefCell};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use tenure::{Class, Error, Keeper, Resource, Result, Token};
use tenure_files::Fence;
use tokio::runtime::Runtime;

use crate::cli::{Global, Slot, TokenOf, WriteTerms};
use crate::context::{Context, WAIT_DEFAULT};
use crate::nesting::{self, Outer};
use crate::report::word;
use crate::runtime;

/// The tokens a write is made under.
pub struct Tokens<'a> {
    context: &'a Context,
    named: Option<&'a TokenOf>,
    outers: Vec<Outer>,
    stores: RefCell<Stores>,
    /// Whether it was told that the one named could not be checked.
    told: Cell<bool>,
}

/// The stores asked so far. They are closed before the runtime they need.
#[derive(Default)]
struct Stores {
    open: Vec<(String, Keeper)>,
    runtime: Option<Runtime>,
}

/// The settings; the store is chosen only if it is needed for a token that was named.
pub fn context(global: &Global, terms: &WriteTerms) -> Result<Context> {
    match terms.token {
        Some(_) => Context::new(global),
        None => Context::without_store(),
    }
}

impl<'a> Tokens<'a> {
    /// The one named, and those of the `run`s around this command. Slots are no locks.
    pub fn new(context: &'a Context, named: Option<&'a TokenOf>) -> Result<Self> {
        let mut outers = nesting::outers()?.leases;
        outers.retain(|outer| outer.lease.resource.kind() != Slot::KIND);
        Ok(Self {
            context,
            named,
            outers,
            stores: RefCell::default(),
            told: Cell::new(false),
        })
    }

    /// What the document is to remember.
    pub fn fence(&self, rebind: bool) -> Option<Fence> {
        self.named.map(|named| Fence {
            store: identity(&self.context.located.url),
            resource: named.resource.clone(),
            token: named.token,
            rebind,
        })
    }

    /// Fails if one of them is fenced.
    pub fn check(&self) -> Result<()> {
        for outer in &self.outers {
            self.ask(&outer.store, &outer.lease.resource, outer.lease.token)?;
        }
        let Some(TokenOf { resource, token }) = self.named else {
            return Ok(());
        };
        match self.ask(&self.context.located.url, resource, *token) {
            Err(error) if error.class() == Class::Unreachable => {
                if !self.told.replace(true) {
                    word(&format!(
                        "token {token} of {resource} is not checked: {error}"
                    ));
                }
                Ok(())
            }
            answer => answer,
        }
    }

    fn ask(&self, url: &str, resource: &Resource, token: Token) -> Result<()> {
        let mut stores = self.stores.borrow_mut();
        let Stores { open, runtime } = &mut *stores;
        if !is_there(url) {
            let none = io::Error::new(io::ErrorKind::NotFound, "there is no store");
            return Err(Error::io("check the token in", url, none));
        }
        let runtime = match runtime {
            Some(runtime) => runtime,
            None => runtime.insert(runtime::start()?),
        };
        let known = open.iter().position(|(known, _)| known == url);
        let keeper = match known {
            Some(at) => &open[at].1,
            None => {
                let settings = self.context.settings(WAIT_DEFAULT);
                let keeper = runtime.block_on(Keeper::open_with(url, settings))?;
                open.push((url.to_owned(), keeper));
                &open[open.len() - 1].1
            }
        };
        runtime.block_on(keeper.check(resource, token))
    }
}

/// Whether there is something at an address that opening it would not have to make.
fn is_there(url: &str) -> bool {
    match place_of(url) {
        Some((_, path)) => !matches!(path.try_exists(), Ok(false)),
        None => true,
    }
}

fn place_of(url: &str) -> Option<(&str, &Path)> {
    let (scheme, path) = url.split_once(':')?;
    matches!(scheme, "file" | "sqlite").then(|| (scheme, Path::new(path)))
}

/// What a document remembers a store by: its address, spelled without links, and without who is
/// logged in to it.
fn identity(url: &str) -> String {
    if let Some((scheme, path)) = place_of(url) {
        return format!("{scheme}:{}", without_links(path).display());
    }
    let Some((scheme, rest)) = url.split_once("://") else {
        return url.to_owned();
    };
    let (address, options) = match rest.split_once('?') {
        Some((address, options)) => (address, Some(options)),
        None => (rest, None),
    };
    let (host, path) = address.split_at(address.find('/').unwrap_or(address.len()));
    let host = host.rsplit('@').next().unwrap_or(host);
    let is_secret = |option: &&str| {
        let name = option.split('=').next().unwrap_or(option);
        matches!(name, "user" | "password")
    };
    let kept = options.into_iter().flat_map(|options| options.split('&'));
    let kept: Vec<&str> = kept.filter(|option| !is_secret(option)).collect();
    let (mark, kept) = (if kept.is_empty() { "" } else { "?" }, kept.join("&"));
    format!("{scheme}://{host}{path}{mark}{kept}")
}

/// As far as it exists: a store that is made later is the same one.
fn without_links(path: &Path) -> PathBuf {
    for above in path.ancestors() {
        let rest = path.strip_prefix(above);
        if let (Ok(found), Ok(rest)) = (fs::canonicalize(above), rest) {
            return match rest.as_os_str().is_empty() {
                true => found,
                false => found.join(rest),
            };
        }
    }
    path.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_store_is_remembered_without_links_whether_it_is_there_yet_or_not() {
        let directory = tempfile::tempdir().unwrap();
        let real = directory.path().canonicalize().unwrap().join("real");
        fs::create_dir(&real).unwrap();
        let link = directory.path().join("link");
        symlink("real", &link).unwrap();
        let expected = format!("sqlite:{}", real.join("new/t.db").display());
        let url = format!("sqlite:{}", link.join("new/t.db").display());
        assert_eq!(identity(&url), expected);
        fs::create_dir(real.join("new")).unwrap();
        fs::write(real.join("new/t.db"), "").unwrap();
        assert_eq!(identity(&url), expected);
    }

    #[test]
    fn a_store_is_remembered_without_user_and_password() {
        for (url, kept) in [
            ("postgres://ana:secret@db/x", "postgres://db/x"),
            (
                "postgres://db:5432/x?sslmode=require",
                "postgres://db:5432/x?sslmode=require",
            ),
            (
                "postgres://db/x?user=ana&a=b&password=p@q",
                "postgres://db/x?a=b",
            ),
            ("postgres://db/x?password=p", "postgres://db/x"),
            ("postgres://a@b:c@db", "postgres://db"),
        ] {
            assert_eq!(identity(url), kept, "{url}");
        }
    }

    #[test]
    fn a_store_that_would_have_to_be_made_is_not_there() {
        let directory = tempfile::tempdir().unwrap();
        let here = directory.path().display();
        assert!(is_there(&format!("file:{here}")));
        assert!(!is_there(&format!("file:{here}/none")));
        assert!(!is_there(&format!("sqlite:{here}/none.db")));
        assert!(is_there("postgres://db/x"));
    }
}
