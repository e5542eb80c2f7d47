//! The record of whether a person trusts the commands that a `tenure.toml` names.
//!
//! A repository brings its `tenure.toml` along, so a command in it may come from a stranger. It
//! counts only after a person has trusted the file, and only while the file has the bytes that it
//! had then: their SHA-256 is kept in the user's state directory.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use tenure::config::Config;
use tenure::{Error, Result};
use tenure_api::doctor::{Trust, Trusted};
use tenure_files::document::{Documents, Version};
use tenure_os::blocking::blocking;

use crate::{Caller, Handle, Service, WAIT_DEFAULT};

/// The files that are trusted, by path, each with the SHA-256 of the bytes that were trusted.
type List = BTreeMap<String, String>;

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).map_err(|source| Error::io("read", path, source))
}

impl Handle<Trust> for Service {
    async fn handle(&self, _: Trust, caller: &Caller) -> Result<Trusted> {
        self.check_caller(caller)?;
        let (owner, automated) = (caller.owner(), self.automated(caller));
        if automated.covers(owner) {
            return Err(Error::not_allowed(
                format!(
                    "{owner} may not trust commands: {}",
                    automated.reason(owner)
                ),
                "ask a person to run: {trust}",
            ));
        }
        blocking(|| self.trust())
    }
}

impl Service {
    fn list_of_trusted(&self) -> Result<PathBuf> {
        Ok(self.state_directory()?.join("trusted.json"))
    }

    fn trust(&self) -> Result<Trusted> {
        let path = self.located().config_path.clone();
        let path = path.ok_or_else(|| Error::NotFound("there is no tenure.toml here".into()))?;
        let text = read(&path)?;
        let config = Config::parse(&text, &path)?;
        let (name, version) = (path.display().to_string(), Version::of(text.as_bytes()));
        let list = self.list_of_trusted()?;
        let above = list.parent().unwrap_or(&list);
        fs::create_dir_all(above).map_err(|source| Error::io("make", above, source))?;
        let add = |trusted: &mut List| {
            trusted.insert(name, version.to_string());
            Ok::<_, Error>(())
        };
        let documents = Documents::new(WAIT_DEFAULT);
        documents.transaction_or_create(&list, List::new(), add)?;
        Ok(Trusted {
            trusted: path,
            commands: config.agents.summary.into_iter().collect(),
        })
    }

    /// Returns the settings of the nearest `tenure.toml` if a person trusts its present bytes. The
    /// settings are read from these very bytes.
    pub(crate) fn trusted_settings(&self) -> Result<Option<Config>> {
        let Some(path) = &self.located().config_path else {
            return Ok(None);
        };
        let text = read(path)?;
        let known: List = fs::read(self.list_of_trusted()?)
            .ok()
            .and_then(|list| serde_json::from_slice(&list).ok())
            .unwrap_or_default();
        let version = Version::of(text.as_bytes()).to_string();
        if known.get(&path.display().to_string()) == Some(&version) {
            Config::parse(&text, path).map(Some)
        } else {
            Ok(None)
        }
    }
}

#[cfg(test)]
mod tests {
    use tenure::store_choice::Environment;
    use tenure::{Class, Owner};

    use super::*;
    use crate::Surroundings;

    #[tokio::test]
    async fn a_person_may_trust_commands_and_an_agent_may_not() {
        let directory = tempfile::tempdir().unwrap();
        let settings = "[agents]\nsummary = [\"cat\"]\n";
        fs::write(directory.path().join("tenure.toml"), settings).unwrap();
        let uid = rustix::process::geteuid().as_raw();
        let environment = Environment::new(directory.path(), uid).with("HOME", directory.path());
        let service = Service::new(Surroundings {
            environment,
            store: None,
            addresses: Vec::new(),
        })
        .unwrap();
        let caller = |owner| Caller::new(Owner::parse(owner).unwrap(), "test");
        let agents = [
            caller("agent:x"),
            caller("ana").under_agent(Some(Owner::parse("agent:x").unwrap())),
        ];
        for agent in agents {
            let refused = service.handle(Trust {}, &agent).await.unwrap_err();
            assert_eq!(refused.class(), Class::NotAllowed);
            assert!(service.trusted_settings().unwrap().is_none());
        }
        let trusted = service.handle(Trust {}, &caller("ana")).await.unwrap();
        assert_eq!(trusted.commands, [["cat"]]);
        assert!(service.trusted_settings().unwrap().is_some());
    }
}
