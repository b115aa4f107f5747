"""The rows in which older builds of Cursor kept all chats of a workspace, and all its composers."""

CHATS = "workbench.panel.aichat.view.aichat.chatdata"
COMPOSERS = "composer.composerData"
