//! A directory to publish, and the directory in place.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use serde_json::Value;
use tenure_testkit::postgres::{Cluster, Database};

use crate::world::{World, code, json};

/// A world with a store that keeps records.
pub struct Site {
    pub world: World,
    pub database: Option<Database>,
}

impl Site {
    pub fn sqlite() -> Self {
        Self::of(World::new(), None)
    }

    /// Makes a site with short leases, so that a stopped publisher is soon overtaken.
    pub fn postgres() -> Self {
        let database = Cluster::shared().database();
        let world = World::at(&format!("{}?lease_ttl=3s", database.url()));
        Self::of(world, Some(database))
    }

    pub fn each() -> [Self; 2] {
        [Self::sqlite(), Self::postgres()]
    }

    fn of(world: World, database: Option<Database>) -> Self {
        fs::create_dir(world.path("srv")).unwrap();
        Self { world, database }
    }

    /// Makes a directory whose content shows its name.
    pub fn source(&self, name: &str) -> String {
        let path = self.world.path(&format!("src-{name}"));
        fs::create_dir_all(path.join("in")).unwrap();
        fs::write(path.join("a.txt"), format!("a of {name}")).unwrap();
        fs::write(path.join("in/b.txt"), format!("b of {name}")).unwrap();
        path.display().to_string()
    }

    pub fn target(&self) -> String {
        self.path("srv/tiles").display().to_string()
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.world.path(name)
    }

    /// Publishes the directory of a name.
    pub fn publish(&self, name: &str, target: &str) -> Output {
        let source = self.source(name);
        self.world
            .call(["publish", &source, target, "--wait", "30s"])
    }

    #[track_caller]
    pub fn published(&self, name: &str, target: &str) -> Value {
        let source = self.source(name);
        let output = self
            .world
            .call(["publish", &source, target, "--wait", "30s", "--json"]);
        assert_eq!(code(&output), 0, "{output:?}");
        json(&output.stdout)["manifests"][0].clone()
    }

    /// Returns the name of the whole directory in place, or `None` if there is none. Panics if it
    /// is torn.
    #[track_caller]
    pub fn content(&self, target: &str) -> Option<String> {
        let target = Path::new(target);
        if !target.exists() {
            return None;
        }
        let read = |name: &str| fs::read_to_string(target.join(name)).unwrap_or_default();
        let (a, b) = (read("a.txt"), read("in/b.txt"));
        let name = a
            .strip_prefix("a of ")
            .unwrap_or_else(|| panic!("torn: {a:?}, {b:?}"));
        assert_eq!(b, format!("b of {name}"), "torn");
        Some(name.to_owned())
    }

    /// Returns the states of all manifests of a target, oldest first.
    pub fn states(&self, target: &str) -> Vec<String> {
        let history = self.world.json(["publish", "--history", target]);
        let manifests = history["manifests"].as_array().unwrap().iter();
        manifests
            .map(|manifest| manifest["state"].as_str().unwrap().to_owned())
            .collect()
    }

    /// Asserts that the directory in place agrees with its manifest.
    #[track_caller]
    pub fn verified(&self, target: &str) {
        let output = self.world.call(["publish", "--verify", target]);
        assert_eq!(code(&output), 0, "{output:?}");
    }

    /// Returns the names in the directory where new versions are made.
    pub fn left_in_tmp(&self) -> Vec<String> {
        let Ok(names) = fs::read_dir(self.path("srv/tmp")) else {
            return Vec::new();
        };
        names
            .map(|name| name.unwrap().file_name().into_string().unwrap())
            .collect()
    }
}
