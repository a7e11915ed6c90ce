"""Registration of controllers (KIP-919), for tools and for changes of feature levels."""

from __future__ import annotations

from controller.commands.controller_result import ControllerResult
from controller.image import ControllerImage, MetadataImage
from controller.records import controller_record, endpoints_of, features_of
from protocol.messages.controller_registration import ControllerRegistrationRequest, ControllerRegistrationResponse


def register_controller(
    image: MetadataImage, request: ControllerRegistrationRequest
) -> ControllerResult[ControllerRegistrationResponse]:
    """Store a controller's endpoints and supported features."""
    controller = ControllerImage(
        request.controller_id, request.incarnation_id, endpoints_of(request.listeners), features_of(request.features)
    )
    known = image.controllers.get(controller.controller_id) == controller
    response = ControllerRegistrationResponse(error_message=None)
    return ControllerResult(() if known else (controller_record(controller),), response)
