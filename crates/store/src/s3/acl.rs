//! Access lists: all that there is belongs to the one owner, who may do everything and alone.

use s3s::dto::*;
use s3s::{S3Request, S3Response, S3Result, s3_error};

use super::Front;
use super::door::OWNER;
use super::translate::owner;

pub(super) async fn of_bucket(
    front: &Front,
    request: S3Request<GetBucketAclInput>,
) -> S3Result<S3Response<GetBucketAclOutput>> {
    front.account.bucket(&request.input.bucket)?;
    let (owner, grants) = (Some(owner()), Some(vec![whole()]));
    Ok(S3Response::new(GetBucketAclOutput { owner, grants }))
}

pub(super) async fn of_object(
    front: &Front,
    request: S3Request<GetObjectAclInput>,
) -> S3Result<S3Response<GetObjectAclOutput>> {
    let input = request.input;
    let bucket = front.account.bucket(&input.bucket)?;
    front.account.object(&bucket, &input.key, input.version_id.as_deref())?;
    let (owner, grants) = (Some(owner()), Some(vec![whole()]));
    Ok(S3Response::new(GetObjectAclOutput { owner, grants, ..Default::default() }))
}

pub(super) async fn set_of_bucket(
    front: &Front,
    request: S3Request<PutBucketAclInput>,
) -> S3Result<S3Response<PutBucketAclOutput>> {
    front.account.bucket(&request.input.bucket)?;
    check(request.input.access_control_policy)?;
    Ok(S3Response::new(PutBucketAclOutput::default()))
}

pub(super) async fn set_of_object(
    front: &Front,
    request: S3Request<PutObjectAclInput>,
) -> S3Result<S3Response<PutObjectAclOutput>> {
    let input = request.input;
    let bucket = front.account.bucket(&input.bucket)?;
    front.account.object(&bucket, &input.key, input.version_id.as_deref())?;
    check(input.access_control_policy)?;
    Ok(S3Response::new(PutObjectAclOutput::default()))
}

/// Returns the only grant there is.
fn whole() -> Grant {
    let grantee = Grantee {
        display_name: Some(OWNER.to_owned()),
        email_address: None,
        id: Some(OWNER.to_owned()),
        type_: Type::from_static(Type::CANONICAL_USER),
        uri: None,
    };
    let permission = Some(Permission::from_static(Permission::FULL_CONTROL));
    Grant { grantee: Some(grantee), permission }
}

/// Refuses a list that gives anything else. What the header asks has been looked at at the door.
fn check(policy: Option<AccessControlPolicy>) -> S3Result<()> {
    let is_whole = |grant: &Grant| {
        let id = grant.grantee.as_ref().and_then(|grantee| grantee.id.as_deref());
        let permission = grant.permission.as_ref().map(Permission::as_str);
        (id, permission) == (Some(OWNER), Some(Permission::FULL_CONTROL))
    };
    match policy.and_then(|policy| policy.grants) {
        Some(grants) if grants.len() != 1 || !is_whole(&grants[0]) => Err(s3_error!(
            NotImplemented,
            "this store lets \"{OWNER}\" do everything, and no one else anything"
        )),
        _ => Ok(()),
    }
}
