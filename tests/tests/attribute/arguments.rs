//! Arguments: patterns, `mut`, `_`, raw names, `#[cfg]`, `impl Trait`.

use super::support::{assert_all_released, assert_held, install};
use redlock_runtime::{LockError, redis_lock};

struct Path<T>(T);
struct Order {
    id: u64,
    lines: (u32, u32),
}

#[redis_lock(key = "nested:{id}:{first}:{last}:{head}")]
async fn nested(
    Path(Order {
        id,
        lines: (first, ref last),
    }): Path<Order>,
    [head, ..]: [u8; 3],
    &flag: &bool,
    whole @ (_, _): (u8, u8),
) -> Result<u64, LockError> {
    assert_held("nested:1:2:3:4").await;
    assert!(flag);
    Ok(id + u64::from(first + *last) + u64::from(head) + u64::from(whole.0))
}

#[redis_lock(key = "raw-dotted:{type.len()}")]
async fn raw_dotted(r#type: &str) -> Result<usize, LockError> {
    assert_held("raw-dotted:1").await;
    Ok(r#type.len())
}

#[redis_lock(key = "raw-fn")]
async fn r#loop() -> Result<(), LockError> {
    assert_held("raw-fn").await;
    Ok(())
}

#[redis_lock(key = "cfg:{id}")]
async fn with_cfg(
    id: u64,
    #[cfg(any())] absent: Absent,
    #[cfg(test)] present: u64,
) -> Result<u64, LockError> {
    assert_held("cfg:1").await;
    #[cfg(any())]
    let present = absent;
    Ok(id + present)
}

#[redis_lock(
    key = "locals:{__section}:{__body}:{__returns}:{__outcome}:{__error}:{__values}:{error}"
)]
#[expect(clippy::too_many_arguments, reason = "one for each local")]
async fn named_like_locals(
    __section: u8,
    __body: u8,
    __returns: u8,
    __outcome: u8,
    __error: u8,
    __value: u8,
    __output: u8,
    __acquired: u8,
    __values: u8,
    error: u8,
) -> Result<u8, LockError> {
    assert_held("locals:1:2:3:4:5:9:10").await;
    Ok(__section
        + __body
        + __returns
        + __outcome
        + __error
        + __value
        + __output
        + __acquired
        + __values
        + error)
}

#[tokio::test]
async fn every_argument() {
    install().await;
    let order = Order {
        id: 1,
        lines: (2, 3),
    };
    assert_eq!(
        nested(Path(order), [4, 5, 6], &true, (7, 8)).await.unwrap(),
        17
    );
    assert_eq!(raw_dotted("a").await.unwrap(), 1);
    r#loop().await.unwrap();
    assert_eq!(with_cfg(1, 2).await.unwrap(), 3);
    assert_eq!(
        named_like_locals(1, 2, 3, 4, 5, 6, 7, 8, 9, 10)
            .await
            .unwrap(),
        55
    );
    assert_all_released().await;
}
