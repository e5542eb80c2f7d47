//! Registers that the locks protect, and that refuse old tokens.
//!
//! They are tables in another database, which machines reach without a proxy: a machine that has
//! lost its way to the locks can still write. Each write is one statement that takes the value or
//! refuses it, and records which, so that the record survives the writer.
//!
//! A holder first announces its token, and reads. From then on lower tokens are refused, so what it
//! has read stays true until it writes. Without that, a late writer could come in between.

use tenure_testkit::postgres::Database;
use tokio_postgres::{Client, NoTls, Statement};

use crate::event_log::Who;
use crate::moment::Moment;

const TABLES: &str = "
    CREATE TABLE registers (
        id int PRIMARY KEY, token bigint NOT NULL DEFAULT 0, value bigint NOT NULL DEFAULT 0
    ) WITH (fillfactor = 50);
    CREATE TABLE written (
        id int NOT NULL, machine int NOT NULL, life int NOT NULL, hold bigint NOT NULL,
        token bigint NOT NULL, believed bigint NOT NULL, accepted bool NOT NULL, asked bigint NOT NULL
    )";

const ANNOUNCE: &str = "
    UPDATE registers SET token = greatest(token, $2) WHERE id = $1 RETURNING value";

const READ: &str = "SELECT value FROM registers WHERE id = $1";

/// READ COMMITTED checks the condition once more after a wait for the row.
const WRITE: &str = "
    WITH taken AS (
        UPDATE registers SET value = $6::bigint + 1, token = $2::bigint
        WHERE id = $1::int AND token <= $2::bigint RETURNING 1
    )
    INSERT INTO written (id, token, machine, life, hold, believed, asked, accepted)
    SELECT $1::int, $2::bigint, $3::int, $4::int, $5::bigint, $6::bigint, $7::bigint,
           EXISTS (SELECT FROM taken)
    RETURNING accepted";

/// A machine's connection to the registers.
pub struct Registers {
    client: Client,
    who: Who,
    announce: Statement,
    read: Statement,
    write: Statement,
}

/// One write, as it was recorded with its effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Written {
    pub resource: u32,
    pub token: u64,
    /// The value that its writer believed to be there; it wrote one more.
    pub believed: i64,
    pub accepted: bool,
    pub asked: Moment,
}

impl Registers {
    /// Makes the tables, with this many registers.
    pub fn make(database: &Database, count: u32) {
        database.psql(TABLES);
        database.psql(&format!(
            "INSERT INTO registers (id) SELECT generate_series(0, {count} - 1)"
        ));
    }

    pub async fn open(url: &str, who: Who) -> Self {
        let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
        tokio::spawn(connection);
        let prepared = async |text| client.prepare(text).await.unwrap();
        let (announce, read, write) = (
            prepared(ANNOUNCE).await,
            prepared(READ).await,
            prepared(WRITE).await,
        );
        Self {
            client,
            who,
            announce,
            read,
            write,
        }
    }

    /// Makes the register refuse lower tokens from now on, and returns its value.
    pub async fn announce(&self, resource: u32, token: u64) -> i64 {
        let (id, token) = (
            i32::try_from(resource).unwrap(),
            i64::try_from(token).unwrap(),
        );
        let row = self.client.query_one(&self.announce, &[&id, &token]).await;
        row.unwrap().get(0)
    }

    pub async fn read(&self, resource: u32) -> i64 {
        let id = i32::try_from(resource).unwrap();
        let row = self.client.query_one(&self.read, &[&id]).await;
        row.unwrap().get(0)
    }

    /// Writes one more than the value is believed to be. Returns false if the token is refused.
    pub async fn write(
        &self,
        resource: u32,
        token: u64,
        hold: u64,
        believed: i64,
        asked: Moment,
    ) -> bool {
        let id = i32::try_from(resource).unwrap();
        let signed = |number: u64| i64::try_from(number).unwrap();
        let small = |number: u32| i32::try_from(number).unwrap();
        let values: [&(dyn tokio_postgres::types::ToSql + Sync); 7] = [
            &id,
            &signed(token),
            &small(self.who.machine),
            &small(self.who.life),
            &signed(hold),
            &believed,
            &signed(asked),
        ];
        let row = self.client.query_one(&self.write, &values).await;
        row.unwrap().get(0)
    }
}

/// Returns all writes to some registers, refused ones too.
pub fn all_written(database: &Database, resources: &std::ops::Range<u32>) -> Vec<Written> {
    let text = database.psql(&format!(
        "SELECT id, token, believed, accepted::int, asked FROM written \
         WHERE id >= {} AND id < {}",
        resources.start, resources.end
    ));
    let number = |text: &str| text.parse::<i64>().unwrap();
    let written = text.lines().map(|line| {
        let columns: Vec<i64> = line.split('|').map(number).collect();
        Written {
            resource: u32::try_from(columns[0]).unwrap(),
            token: u64::try_from(columns[1]).unwrap(),
            believed: columns[2],
            accepted: columns[3] == 1,
            asked: u64::try_from(columns[4]).unwrap(),
        }
    });
    written.collect()
}

/// Returns the value of each register.
pub fn values(database: &Database, resources: &std::ops::Range<u32>) -> Vec<i64> {
    let text = database.psql(&format!(
        "SELECT value FROM registers WHERE id >= {} AND id < {} ORDER BY id",
        resources.start, resources.end
    ));
    text.lines().map(|line| line.parse().unwrap()).collect()
}
