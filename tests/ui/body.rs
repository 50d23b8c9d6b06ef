use redlock_runtime::{LockError, redis_lock};

#[redis_lock(key = "order")]
async fn empty(id: u64) -> Result<u64, LockError> {}

#[rustfmt::skip]
#[redis_lock(key = "order")]
async fn on_one_line(id: u64) -> Result<u64, LockError> { id }

#[redis_lock(key = "order")]
async fn return_mismatch(id: u64) -> Result<u64, LockError> {
    if id == 0 {
        return None;
    }
    Ok(id)
}

#[redis_lock(key = "order")]
async fn semicolon(id: u64) -> Result<u64, LockError> {
    Ok(id);
}

#[redis_lock(key = "order")]
async fn type_mismatch(id: u64) -> Result<u64, LockError> {
    Ok(id.to_string())
}

#[redis_lock(key = "order", on_error = drop)]
async fn unit_mismatch(id: u64) {
    id
}

#[redis_lock(key = "order:{id}")]
async fn wrong_method(id: u64) -> Result<u64, LockError> {
    let later = id.wait_for_it().await;
    Ok(later + id.len())
}

#[redis_lock(key = "order")]
async fn question_mark(id: &str) -> Result<u64, LockError> {
    Ok(id.parse()?)
}

#[redis_lock(key = "order")]
async fn unknown_name(id: u64) -> Result<u64, LockError> {
    Ok(idd)
}

#[redis_lock(key = "order")]
fn blocking_return_mismatch(early: bool) -> Result<u8, LockError> {
    if early {
        return 5;
    }
    "7".parse::<u8>()?;
    Ok(1)
}

#[redis_lock(key = "order")]
fn blocking_type_mismatch() -> Result<u8, LockError> {
    let amount: u8 = "all";
    Ok("all")
}

async fn charge() {}

#[redis_lock(key = "order")]
fn blocking_await() -> Result<(), LockError> {
    charge().await;
    Ok(())
}

fn main() {}
