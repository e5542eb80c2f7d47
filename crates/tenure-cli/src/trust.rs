//! The record of whether a person trusts the commands that a `tenure.toml` names.
//!
//! A repository brings its `tenure.toml` along, so a command in it could be anybody's. It counts only after `tenure doctor --trust`, and only
//! for the very bytes that were there then: their SHA-256 is kept in the user's state directory.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use tenure::config::Config;
use tenure::{Error, Result};
use tenure_files::document::{Documents, Version};

use crate::context::{Context, WAIT_DEFAULT};

/// The trusted files, by path, each with the SHA-256 of what was trusted.
type Trusted = BTreeMap<String, String>;

fn list(context: &Context) -> Result<PathBuf> {
    Ok(context.state_directory()?.join("trusted.json"))
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).map_err(|source| Error::io("read", path, source))
}

/// Trusts the commands of the nearest `tenure.toml`. Returns its path, and the commands.
pub fn trust(context: &Context) -> Result<(PathBuf, Vec<Vec<String>>)> {
    let owner = context.owner(None)?;
    let automated = context.automated();
    if automated.covers(&owner) {
        return Err(Error::not_allowed(
            format!(
                "{owner} may not trust commands: {}",
                automated.reason(&owner)
            ),
            "ask a person to run: tenure doctor --trust",
        ));
    }
    let path = context.located.config_path.clone();
    let path = path.ok_or_else(|| Error::NotFound("there is no tenure.toml here".into()))?;
    let text = read(&path)?;
    let config = Config::parse(&text, &path)?;
    let (name, version) = (path.display().to_string(), Version::of(text.as_bytes()));
    let list = list(context)?;
    let above = list.parent().unwrap_or(&list);
    fs::create_dir_all(above).map_err(|source| Error::io("make", above, source))?;
    let add = |trusted: &mut Trusted| {
        trusted.insert(name, version.to_string());
        Ok::<_, Error>(())
    };
    let documents = Documents::new(WAIT_DEFAULT);
    documents.transaction_or_create(&list, Trusted::new(), add)?;
    Ok((path, config.agents.summary.into_iter().collect()))
}

/// Returns the settings of the nearest `tenure.toml` if a person trusts what is in it now, read from the bytes that are trusted.
pub fn trusted(context: &Context) -> Result<Option<Config>> {
    let Some(path) = &context.located.config_path else {
        return Ok(None);
    };
    let text = read(path)?;
    let known: Trusted = fs::read(list(context)?)
        .ok()
        .and_then(|list| serde_json::from_slice(&list).ok())
        .unwrap_or_default();
    let version = Version::of(text.as_bytes()).to_string();
    match known.get(&path.display().to_string()) == Some(&version) {
        true => Config::parse(&text, path).map(Some),
        false => Ok(None),
    }
}
