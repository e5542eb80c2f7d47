//! Lists all records of a query, page after page.

use tenure::Result;
use tenure::records::{Record, RecordQuery, Records};

/// Returns all records that a query asks for.
pub async fn all_records(records: &Records<'_>, mut query: RecordQuery) -> Result<Vec<Record>> {
    let mut all = Vec::new();
    loop {
        let page = records.list(&query).await?;
        all.extend(page.records);
        query.after = page.next;
        if query.after.is_none() {
            return Ok(all);
        }
    }
}
