//! The database in a world, for tests that run on a server, too.

use crate::world::World;

pub struct Scene {
    pub world: World,
}

impl Scene {
    pub fn new() -> Self {
        Self {
            world: World::new(),
        }
    }

    /// Writes an order of kinds into the database.
    pub fn write_order(&self, order: &str) {
        let script = "import sqlite3, sys\n\
                      c = sqlite3.connect('store/tenure.db', isolation_level=None)\n\
                      c.execute(\"insert into settings values ('order', ?)\", sys.argv[1:])";
        let mut python = std::process::Command::new("python3");
        self.world.prepare(&mut python);
        let wrote = python.args(["-c", script, order]).status().unwrap();
        assert!(wrote.success());
    }
}
