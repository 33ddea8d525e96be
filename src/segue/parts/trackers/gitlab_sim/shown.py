"""The simulator's objects as GitLab's API shows them."""

from __future__ import annotations

from typing import Any

from segue.parts.trackers.gitlab_sim.state import (
    Lab,
    LabDiscussion,
    LabJob,
    LabNote,
    LabPipeline,
    LabProject,
    LabRequest,
)

Json = dict[str, Any]


def show_user(lab: Lab, name: str, url: str) -> Json:
    """Show a user."""
    return {
        "id": lab.user_id(name),
        "username": name,
        "name": name,
        "state": "active",
        "web_url": f"{url}/{name}",
    }


def show_project(lab: Lab, project: LabProject, user: str, default: str, url: str) -> Json:
    """Show a project, with what the asking user may do."""
    namespace, _, name = project.path.rpartition("/")
    level = lab.level_of(user)
    return {
        "id": project.id,
        "name": name,
        "path": name,
        "path_with_namespace": project.path,
        "namespace": {"path": namespace, "full_path": namespace},
        "default_branch": default,
        "archived": False,
        "merge_requests_enabled": True,
        "web_url": f"{url}/{project.path}",
        "permissions": {
            "project_access": {"access_level": level, "notification_level": 3} if level else None,
            "group_access": None,
        },
    }


def show_request(lab: Lab, project: LabProject, request: LabRequest, url: str) -> Json:
    """Show a merge request."""
    draft = request.title.startswith("Draft:")
    return {
        "id": request.id,
        "iid": request.iid,
        "project_id": project.id,
        "title": request.title,
        "description": request.description,
        "state": request.state,
        "draft": draft,
        "work_in_progress": draft,
        "source_branch": request.source,
        "target_branch": request.target,
        "source_project_id": project.id,
        "target_project_id": project.id,
        "sha": request.sha or None,
        "labels": sorted(request.labels),
        "author": show_user(lab, request.author, url),
        "has_conflicts": request.conflicts,
        "merge_status": "cannot_be_merged" if request.conflicts else "can_be_merged",
        "detailed_merge_status": _merge_status(project, request, draft),
        "created_at": request.created,
        "web_url": f"{url}/{project.path}/-/merge_requests/{request.iid}",
        "blocking_discussions_resolved": not _is_discussed(request),
    }


def _merge_status(project: LabProject, request: LabRequest, draft: bool) -> str:
    newest = next((one for one in reversed(project.pipelines) if one.sha == request.sha), None)
    for status, applies in (
        ("not_open", request.state != "opened"),
        ("conflict", request.conflicts),
        ("draft_status", draft),
        ("ci_still_running", newest is not None and newest.status in ("running", "pending", "created")),
        ("ci_must_pass", newest is not None and newest.status == "failed"),
        ("discussions_not_resolved", _is_discussed(request)),
    ):
        if applies:
            return status
    return "mergeable"


def _is_discussed(request: LabRequest) -> bool:
    return any(note.resolvable and not note.resolved for one in request.discussions for note in one.notes)


def show_discussion(lab: Lab, one: LabDiscussion, url: str) -> Json:
    """Show a discussion."""
    notes = [show_note(lab, note, url) for note in one.notes]
    return {"id": one.id, "individual_note": one.single, "notes": notes}


def show_note(lab: Lab, note: LabNote, url: str) -> Json:
    """Show a note."""
    shown: Json = {
        "id": note.id,
        "type": "DiffNote" if note.position else "DiscussionNote" if note.resolvable else None,
        "body": note.body,
        "author": show_user(lab, note.author, url),
        "created_at": note.created,
        "system": False,
        "resolvable": note.resolvable,
    }
    if note.resolvable:
        shown["resolved"] = note.resolved
    return shown | ({"position": note.position} if note.position else {})


def show_pipeline(project: LabProject, pipeline: LabPipeline, url: str) -> Json:
    """Show a pipeline."""
    return {
        "id": pipeline.id,
        "iid": pipeline.id,
        "project_id": project.id,
        "sha": pipeline.sha,
        "ref": pipeline.ref,
        "status": pipeline.status,
        "source": "merge_request_event",
        "web_url": f"{url}/{project.path}/-/pipelines/{pipeline.id}",
    }


def show_job(project: LabProject, pipeline: LabPipeline, job: LabJob, url: str) -> Json:
    """Show a job."""
    return {
        "id": job.id,
        "name": job.name,
        "stage": "test",
        "status": job.status,
        "allow_failure": job.allow_failure,
        "ref": pipeline.ref,
        "web_url": f"{url}/{project.path}/-/jobs/{job.id}",
        "pipeline": {"id": pipeline.id, "sha": pipeline.sha},
    }
