use redlock_runtime::{LockError, redis_lock};

const NONE: u32 = 0;

#[redis_lock(key = shared("a"))]
async fn alone() {}

#[redis_lock(key = permits("a", 3))]
async fn alone_of_permits() {}

#[redis_lock(key = ["a", fair("b")])]
async fn word_unknown() {}

#[redis_lock(key = ["a", shard("b")])]
async fn word_misspelt() {}

#[redis_lock(key = ["a", permits("b")])]
async fn number_missing() {}

#[redis_lock(key = ["a", permits("b", NONE)])]
async fn constant_of_zero() -> Result<(), LockError> {
    Ok(())
}

#[redis_lock(key = ["a", permits("b", 3, weight = NONE)])]
async fn constant_weight_of_zero() -> Result<(), LockError> {
    Ok(())
}

#[redis_lock(key = ["a", permits("b", NONE, weight = of)])]
async fn constant_of_zero_beside_an_argument(of: u32) -> Result<(), LockError> {
    Ok(())
}

#[redis_lock(key = [permits("b", 3, weight = 4), "c"])]
async fn weight_too_large() {}

#[redis_lock(key = ["a", shared "b"])]
async fn parentheses_missing() {}

#[redis_lock(key = ["a", "b".shared()])]
async fn method() {}

#[redis_lock(key = ["a", shared()])]
async fn empty() {}

#[redis_lock(key = ["a" shared("b")])]
async fn comma_missing() {}

fn main() {}
